/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h - from a schedule to something a pipeline can run. */
#ifndef PENSTOCK_STAGES_PROGRAM_H
#define PENSTOCK_STAGES_PROGRAM_H

#include "stages/engine.h"

/*
 * Check `schedule` against the pipeline, and make room for it: channels, working
 * arenas, lengths and events. After an error the pipeline is as usable as before.
 * Errors: as pst_pipeline_load().
 */
pst_status pst__program_load(pst_pipeline *pipeline, const pst_schedule *schedule,
                             pst_program *program, pst_error *err);
void pst__program_fini(pst_program *program, const pst_env *env);

#endif
