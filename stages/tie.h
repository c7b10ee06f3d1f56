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
 *
 * Where members are in several processes (tie_remote.c), each sends its slices to the
 * processes of their owners, and each owner sends the sum to every other process with a
 * member. A member that is elsewhere has a buffer here in place of its gradients: what
 * it sends for slices that are summed here comes into that, and so does the sum of the
 * slice that it owns, which is no other's place. A word for such a stage is set once
 * all that it sends has come; a second one, word stages + stage, once the sums that it
 * owns have come and what went there is away.
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
    pst_tie_member *members;       /* of all ties                                    */
    float **gradients;             /* [as members] where each one's begin             */
    float ***gradients_of;         /* [count] into these                             */
    pst_tie_slice *slices;         /* of all ranks                                   */
    pst_tie_rank *rank;            /* [ranks]                                        */
    int *weights_left;             /* [stages] W's to come; of its rank's worker      */
    pst_atomic_u32 *ready;         /* [2 stages]                                     */
    struct pst_tie_remote *remote; /* NULL: all members are in this process     */
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

/* Put what was summed elsewhere in its place, without waiting. Returns the word that
 * the first sum which is left waits for; -1: there is none. */
int pst__tie_collect(pst_worker *worker);

/* Has `word` been set in this run? Any thread. */
bool pst__tie_is_ready(const pst_pipeline *pipeline, int word);

/* The rank that a word waits for. */
int pst__tie_rank(const pst_pipeline *pipeline, int word);

/* Set it, and wake the workers of all that are tied to its stage. Any thread. */
void pst__tie_set_ready(const pst_pipeline *pipeline, int word);

/* ---- over processes (tie_remote.c); nothing where ties->remote is NULL -------------
 */

/* Errors: PST_ENOMEM. */
pst_status pst__tie_remote_create(const pst_pipeline *pipeline, pst_ties *ties,
                                  pst_error *err);
void pst__tie_remote_destroy(pst_ties *ties, const pst_env *env);

/* The caller, before a list with backward starts: be ready for all that comes. */
void pst__tie_remote_begin(const pst_pipeline *pipeline);

/* The last W of a stage that is here has ended: its slices go to where they are summed.
 */
void pst__tie_remote_contribute(const pst_pipeline *pipeline, int stage);

/* The slice has been summed: to the other processes with a member. */
void pst__tie_remote_hand_out(const pst_pipeline *pipeline, const pst_tie_slice *slice);

/* Tags that the ties of the options need. */
uint32_t pst__tie_remote_tags(const pst_pipeline_options *options);

/* ---- the sum -------------------------------------------------------------------- */

/* First element of slice `index` of `slices` of `count`; larger slices come first. */
size_t pst__tie_slice_start(size_t count, int slices, int index);

/* Elements first .. end - 1 of all members become ((m0 + m1) + m2) and so on. */
void pst__tie_sum(float *const *members, int member_count, size_t first, size_t end);

#endif
