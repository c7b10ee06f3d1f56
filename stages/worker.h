/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.h - the thread of one rank: it runs what engine.h's phases tell it. */
#ifndef PENSTOCK_STAGES_WORKER_H
#define PENSTOCK_STAGES_WORKER_H

#include "stages/engine.h"

/* Start the thread; when it has found its place it finishes a phase. Errors:
 * PST_ESYSTEM. */
pst_status pst__worker_start(pst_worker *worker, pst_error *err);

/* The run has ended early, on this rank too. */
bool pst__worker_has_to_end(const pst_worker *worker);

/* A random pause where the pipeline's options ask for such. */
void pst__worker_delay(pst_worker *worker);

#endif
