/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * footprint.h - what running a schedule takes: every buffer, ring and message, found
 * from the lists alone before anything runs.
 *
 * Static slots. Each buffer of each stage and microbatch gets a slot of the rank that
 * reads it. A slot is given again only when, by the order of rows and messages, the
 * action that used it last must have ended before the action that fills it next can
 * start, on whichever ranks they are. So at run time nothing is searched, returned or
 * waited for: an action with its messages there can always run.
 *
 * The proof goes with a clock for each rank: how many actions of every other rank have
 * certainly ended when this rank's next action starts. A message carries its sender's
 * clock. Slots of one size and rank are shared by all kinds of buffers.
 *
 * Pure: no threads, no clock, no memory of a run. Units: bytes rounded up to 64.
 */
#ifndef PENSTOCK_STAGES_FOOTPRINT_H
#define PENSTOCK_STAGES_FOOTPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/schedule.h>
#include <penstock/stage.h>

#include "stages/links.h"
#include "stages/slots.h"

/*
 * An action with everything it needs to run. Buffers are numbers of slots of the own
 * rank, but for `output` and `input_grad`, which are slots of the rank that gets them,
 * and `away`. PST__NONE where there is none.
 */
typedef struct pst_step {
    pst_action action;
    uint32_t receive; /* link whose message must have come                     */
    uint32_t send;    /* link that carries the product away                    */
    uint32_t input;
    uint32_t output;
    uint32_t output_grad;
    uint32_t input_grad;
    uint32_t saved_for_input;
    uint32_t saved_for_weight;
    uint32_t kept;
    uint32_t weights;     /* an older version; PST__NONE: the stage's own      */
    uint32_t update;      /* STEP: how many of the stage's came before         */
    uint32_t stash;       /* STEP: where the weights are copied first          */
    uint32_t away[3];     /* EVICT, LOAD: what input, saved_for_input and
                             saved_for_weight are on the partner; numbers of
                             the own rank's away_offset                        */
    uint32_t sequence;    /* F, B and I of lists with slices                   */
    uint32_t waiting;     /* W too early: its gradient is computed in here     */
    uint32_t merge_first; /* then these buffers are added to the gradients:    */
    uint32_t merge_count; /*   merges[merge_first ..] of the row               */
} pst_step;

/* What one rank does and holds: its actions but for messages, in the order of its row.
 */
typedef struct pst_rank_footprint {
    pst_step *steps;
    size_t step_count;
    uint32_t *merges; /* slots, in the order of sums (stage.h) at each step    */
    size_t merge_count;
    size_t *slot_offset; /* in the rank's working arena                        */
    uint32_t slot_count;
    size_t *away_offset; /* in the working arena of the rank's partner         */
    uint32_t away_count;
    int partner;          /* where that is, where away_count is not 0          */
    size_t scratch_bytes; /* at offset 0                                       */
    size_t bytes;         /* of the working arena                              */
} pst_rank_footprint;

typedef struct pst_footprint {
    pst_env env;
    int ranks;
    int stages;
    int microbatches; /* slices count                                          */
    int slices;       /* of a sequence                                         */
    int updates;      /* of each stage's weights, by STEPs                     */
    bool training;    /* the lists have backward actions                       */
    pst_rank_footprint *rank;
    pst_link *links;
    uint32_t link_count;
} pst_footprint;

/*
 * The schedule must be valid (check.h), with its stages on the ranks of rank_of_stage.
 * Errors: PST_ENOMEM (also where sizes overflow), PST_EDEADLOCK.
 * Cost:   O(ranks) a message, O(1) an action.
 */
pst_status pst__footprint_create(const pst_env *env, const pst_schedule *schedule,
                                 const pst_stage *stages, const int *rank_of_stage,
                                 pst_footprint **out, pst_error *err);
void pst__footprint_destroy(pst_footprint *footprint);

#endif
