/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tie.h - stages that hold copies of one parameter get the sum of their gradients.
 *
 * A tie of n members (pipeline.h) is cut into n slices of its elements. Slice i is the
 * affair of the worker of member i's rank: when the gradients of all members' stages
 * are complete, it adds up their slices in the order of members and writes the sum to
 * all of them. So each sum is made once, in one order, and all members' ranks share the
 * work; it goes on while other ranks still run their lists.
 *
 * `ready` has a word for each stage: the number of the newest run in which the stage's
 * last W has ended. Until then its gradients belong to its own worker, from then on to
 * the owners of slices, and from the end of the phase on to the caller. A worker that
 * has nothing left to do but to sum sleeps as it does for a message (doorbell.h), with
 * `ready` in place of the count of messages.
 */
#ifndef PENSTOCK_STAGES_TIE_H
#define PENSTOCK_STAGES_TIE_H

#include <stdbool.h>

#include <penstock/pipeline.h>

#include "stages/atomic.h"

typedef struct pst_worker pst_worker;

typedef struct pst_tie_slice {
    int tie;
    int member; /* the slice's number, and the member whose rank owns it        */
    bool done;  /* in the present run                                          */
} pst_tie_slice;

/* What a rank has to sum. Its worker's alone. */
typedef struct pst_tie_rank {
    pst_tie_slice *slices;
    int slice_count;
    int open; /* slices to sum that the rank's own stage is ready for           */
} pst_tie_rank;

typedef struct pst_ties {
    pst_tie *ties;
    int count;
    pst_tie_member *members; /* of all ties                                    */
    float **gradients;       /* [as members] where each one's begin             */
    float ***gradients_of;   /* [count] into these                             */
    pst_tie_slice *slices;   /* of all ranks                                   */
    pst_tie_rank *rank;      /* [ranks]                                        */
    int *weights_left;       /* [stages] W's to come; of its rank's worker      */
    pst_atomic_u32 *ready;   /* [stages]                                       */
} pst_ties;

/* Errors: PST_EINVAL: a tie of less than two members, one that lies outside its stage's
 * gradients, or two that share elements. */
pst_status pst__ties_check(const pst_stage *stages, int stage_count,
                           const pst_tie *ties, int count, pst_error *err);

/* Copies those in the pipeline's options; the stages have their memory. *out is NULL
 * where there are none. Errors: PST_ENOMEM. */
pst_status pst__ties_create(const pst_pipeline *pipeline, pst_ties **out,
                            pst_error *err);
void pst__ties_destroy(pst_ties *ties, const pst_env *env); /* NULL allowed */

/* ---- for workers; none of them does anything where there are no ties ------------- */

/* A list begins. */
void pst__tie_begin(pst_worker *worker);

/* A W of `stage`, which is the worker's, has ended. At the last one, tells the owners
 * of slices. */
void pst__tie_count_weight(pst_worker *worker, int stage);

/* Sum what can be, without waiting. Returns the stage that the first slice left waits
 * for; -1: there is none left that the worker's own stages are ready for. */
int pst__tie_sum_ready(pst_worker *worker);

/* Are the gradients of `stage` complete, and may be read and written? Any thread. */
bool pst__tie_is_ready(const pst_pipeline *pipeline, int stage);

/* ---- the sum -------------------------------------------------------------------- */

/* First element of slice `index` of `slices` of `count`; larger slices come first. */
size_t pst__tie_slice_start(size_t count, int slices, int index);

/* Elements first .. end - 1 of all members become ((m0 + m1) + m2) and so on. */
void pst__tie_sum(float *const *members, int member_count, size_t first, size_t end);

#endif
