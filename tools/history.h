/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history.h - the traces of a run's last steps, and what they say of its costs.
 *
 * Holds the last PST_HISTORY_STEPS iterations of one list, so that a picture can
 * show a typical step and the simulator can be asked to predict it.
 */
#ifndef PST_TOOLS_HISTORY_H
#define PST_TOOLS_HISTORY_H

#include <stddef.h>

#include <penstock/pipeline.h>
#include <penstock/simulate.h>

#define PST_HISTORY_STEPS 32

typedef struct pst_history pst_history;

/* For iterations of `schedule`, which is borrowed. Errors: PST_ENOMEM. */
pst_status history_create(const pst_schedule *schedule, pst_history **out,
                          pst_error *err);
void history_destroy(pst_history *history);

/* Copy the trace of the pipeline's last run. */
void history_add(pst_history *history, const pst_pipeline *pipeline);

/* How many iterations are held. */
size_t history_count(const pst_history *history);

/* Events of `rank` in the held iteration `index` (0 is the oldest); *count of them. */
const pst_trace_event *history_events(const pst_history *history, size_t index,
                                      int rank, size_t *count);

/* The held iteration whose makespan is the median, and that makespan in seconds. */
size_t history_typical(const pst_history *history, double *makespan);

/*
 * Median seconds of F, I and W of each stage, in arrays that the caller owns
 * ([stages] each); a full B counts as I. costs points at them.
 * Errors: PST_ENOMEM.
 */
pst_status history_costs(const pst_history *history, double *forward,
                         double *backward_input, double *backward_weight,
                         pst_costs *costs, pst_error *err);

#endif
