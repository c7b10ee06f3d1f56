/* SPDX-License-Identifier: BSD-3-Clause */
/* train_faults.h - --fault and --check-finite in a run of pipetrain. */
#ifndef PST_TOOLS_TRAIN_FAULTS_H
#define PST_TOOLS_TRAIN_FAULTS_H

#include <stdint.h>

#include <penstock/env.h>
#include <penstock/fault.h>
#include <penstock/finite.h>
#include <penstock/schedule.h>

#include "tools/pipetrain.h"

/* Zeroed but for the settings; borrows them. */
typedef struct train_faults {
    const pipetrain_settings *settings;
    pst_faults *faults;
    pst_finite *finite;
    int data_done[MOST_FAULTS]; /* those of op=data that have struck           */
} train_faults;

/* Errors: PST_EINVAL: a microbatch that the schedule does not have. */
pst_status train_faults_check(const train_faults *faults, const pst_schedule *schedule,
                              pst_error *err);

/* For pst_trainer_options.decorate. */
pst_status train_faults_decorate(void *faults, pst_stage *stages, int count,
                                 pst_error *err);

/* Those of op=data that are due in `step`, from 1. */
pst_status train_faults_data(train_faults *faults, int64_t step, pst_error *err);

/* For pst_env.log: as say_log(), but PENSTOCK_KILL_AT=POINT or POINT:N kills the
 * program when a save comes to that point, or does so for the N-th time. */
void train_faults_hear(void *user, pst_log_level level, const char *text);

/* At the end of a run: warns where some never struck. */
void train_faults_warn(const train_faults *faults);

/* After the trainer is destroyed. */
void train_faults_close(train_faults *faults);

#endif
