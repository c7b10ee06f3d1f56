/* SPDX-License-Identifier: BSD-3-Clause */
/* train_picture.h - what the pipeline did beside what the simulator says it should. */
#ifndef PST_TOOLS_TRAIN_PICTURE_H
#define PST_TOOLS_TRAIN_PICTURE_H

#include "tools/history.h"
#include "tools/pipetrain.h"

/*
 * Predicted (simulated from measured costs) and measured makespan in a line; with
 * --draw both as text; with --picture both in a file; with --trace the last steps'
 * events as a trace. Errors: PST_EIO, PST_ENOMEM.
 */
pst_status train_picture(const pipetrain_settings *settings,
                         const pst_schedule *schedule, const pst_history *history,
                         const pst_pipeline *pipeline, pst_error *err);

#endif
