/* SPDX-License-Identifier: BSD-3-Clause */
/* settle.h - a worker takes its place, and the one warning of what was refused. */
#ifndef PENSTOCK_STAGES_SETTLE_H
#define PENSTOCK_STAGES_SETTLE_H

#include "stages/engine.h"

/* On the worker's thread, first of all: bind it, touch its memory, remember where that
 * is, and let the host do its part (pst_pipeline_options.worker_start). */
void pst__worker_settle(pst_worker *worker);

/* The same for a further member of the team of `worker`, a pst_worker; its memory is
 * the worker's affair. */
void pst__member_settle(void *worker, pst_team_member *member);

/* What `info` says of rank's place: without a worker, that is all there is. */
void pst__settle_describe(const pst_topology *topology, int rank,
                          pst_worker_info *info);

/* One line in the log for all that was refused to any rank, at most once a pipeline.
 * While no phase runs. */
void pst__settle_warn(pst_pipeline *pipeline);

#endif
