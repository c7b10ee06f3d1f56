/* SPDX-License-Identifier: BSD-3-Clause */
/* pipetrain.h - what the rooms of pipetrain share: its settings and its jobs. */
#ifndef PST_TOOLS_PIPETRAIN_H
#define PST_TOOLS_PIPETRAIN_H

#include <stdint.h>

#include <penstock/fault.h>
#include <penstock/trainer.h>

#include "tools/options.h"

enum { MOST_FAULTS = sizeof((option_strings *)0)->text / sizeof(char *) };

/* The command line, complete with defaults (pipetrain_options.c). */
typedef struct pipetrain_settings {
    const char *data;
    const char *schedule; /* a name or a CSV file                              */
    int stages;
    int chunks;
    int group; /* 0: the schedule's own                                        */
    int batch;
    int microbatches;
    int slices;        /* of sequences; 0: as the schedule has it                     */
    int data_parallel; /* copies of the list side by side; 0: as it has them    */
    const char *shares; /* of the batch, "3,1"; NULL: equal ones               */
    int64_t steps;
    int64_t stop_at;   /* 0: run all steps                                       */
    double time_limit; /* seconds; 0: none                                     */
    int restarts;
    char **supervised; /* what to restart instead of this program's own run     */
    int supervised_count;
    uint64_t seed;
    double val_fraction;
    pst_gpt_config model;
    pst_adamw optimizer;
    int clip_given; /* else there is none where the schedule cannot            */
    pst_pipeline_options pipeline; /* where workers go                         */
    double watchdog_seconds;       /* below 0: never                                 */
    pst_fault fault[MOST_FAULTS];
    int fault_count;
    int check_finite;
    int report_binding;
    const char *workers; /* of each process, "2,1"; NULL: as many each         */
    int allow_mixed;
    const char *init;
    const char *checkpoint;
    int64_t checkpoint_every; /* 0: at the end only                            */
    int resume;
    const char *log;
    const char *trace;
    const char *picture;
    int draw;
    int digest;
    int64_t generate;
    const char *prompt;
    double temperature;
    int quiet;
    const char *check_reference;
    int self_test;
    int color; /* enum draw_color                                              */
    char told[OPTIONS_TOLD]; /* what all processes must have alike             */
} pipetrain_settings;

/* Train as told. Returns the exit status; errors have been printed. */
int pipetrain_train(const pipetrain_settings *settings);

/* Compare with reference files (--check-reference). As above. */
int pipetrain_check_reference(const pipetrain_settings *settings);

/* Measure messages between processes (--self-test). As above. */
int pipetrain_self_test(void);

/* The list that the settings ask for, with its copies. Errors: as the generator's or
 * the reader's, and PST_EINVAL where a file's shape differs from what was asked. */
pst_status pipetrain_schedule(const pipetrain_settings *settings, pst_schedule **out,
                              pst_error *err);

#endif
