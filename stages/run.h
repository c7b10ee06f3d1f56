/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - what pipeline.c needs of run.c. */
#ifndef PENSTOCK_STAGES_RUN_H
#define PENSTOCK_STAGES_RUN_H

#include "stages/engine.h"

/* Return when all workers have finished the present phase, however long it takes. */
void pst__pipeline_wait_idle(pst_pipeline *pipeline);

/* PST_EPEER with the transport's reason. */
pst_status pst__pipeline_cut_off(const pst_pipeline *pipeline, pst_error *err);

/* What a call gave goes to its caller, and to the other processes where it is a failure
 * of this one. transport NULL: there are none. */
pst_status pst__pipeline_tell(const pst_transport *transport, pst_status status,
                              const pst_error *own, pst_error *err);

#endif
