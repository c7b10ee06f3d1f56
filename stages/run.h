/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - what pipeline.c needs of run.c. */
#ifndef PENSTOCK_STAGES_RUN_H
#define PENSTOCK_STAGES_RUN_H

#include "stages/engine.h"

/* Return when all workers have finished the present phase, however long it takes. */
void pst__pipeline_wait_idle(pst_pipeline *pipeline);

#endif
