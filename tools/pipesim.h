/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim.h - what the subcommands of pipesim share. */
#ifndef PST_TOOLS_PIPESIM_H
#define PST_TOOLS_PIPESIM_H

#include <penstock/registry.h>

#include "tools/costs.h"
#include "tools/options.h"
#include "tools/source.h"

/* Each takes argv with the subcommand's name at argv[0], and returns the exit status.
 */
int pipesim_list(int argc, char **argv);
int pipesim_draw(int argc, char **argv);
int pipesim_stats(int argc, char **argv);
int pipesim_check(int argc, char **argv);
int pipesim_export(int argc, char **argv);
int pipesim_place(int argc, char **argv);

void pipesim_version(void);

/* -p, -m, -v and what else a schedule can be told. */
typedef struct shape_options {
    pst_shape shape;
    int order;   /* enum pst_order                                               */
    int weights; /* enum pst_weights                                           */
    const char *memory; /* "12" or "1.5p"; NULL: the schedule's own            */
    double freed_at_input;
    int freed_given;
    int data_parallel; /* copies side by side; 0: as the schedule has it        */
    file_options file;
} shape_options;

enum { FILE_OPTION_COUNT = 5, SHAPE_OPTION_COUNT = 12 + FILE_OPTION_COUNT };
void shape_add_options(shape_options *s, option *table);

/* --placement and the other options of files alone. */
void file_add_options(file_options *f, option *table);

/*
 * The list that SCHEDULE and the options mean; it follows `c` where its kind uses
 * costs. A named one needs -p and -m. Returns OPTIONS_GO_ON or an exit status, after a
 * message.
 */
int shape_make(const command *command, shape_options *s, costs *c, const char *text,
               pst_schedule **out);

#endif
