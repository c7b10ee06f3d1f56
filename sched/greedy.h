/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greedy.h - list scheduling: each rank runs the best action that is ready.
 *
 * For kinds that are defined by their placement and their memory rather than by
 * an order. Costs are nominal and small integers, so that the same rows come
 * out everywhere.
 */
#ifndef PST_SCHED_GREEDY_H
#define PST_SCHED_GREEDY_H

#include <penstock/schedule.h>

typedef struct pst_greedy {
    const int *rank_of_stage; /* [stages]                                        */
    int forward;              /* costs                                         */
    int backward_input;
    int backward_weight;
    int split;        /* 1: I and W, W where nothing else is ready; 0: B */
    const int *limit; /* [stages] microbatches held at most, never more
                         than at the stage before; NULL: any           */
} pst_greedy;

/*
 * Append all rows to `builder`, whose shape, replicas and slices say what there is to
 * do. What is ready first runs first. Among those ready at once several rules of
 * preference are tried (backwards or forwards, stages near the end or the beginning, or
 * the oldest microbatch) and the shortest list is taken. Errors: PST_ENOMEM.
 */
pst_status pst__greedy_fill(pst_schedule_builder *builder, const pst_greedy *how,
                            pst_error *err);

#endif
