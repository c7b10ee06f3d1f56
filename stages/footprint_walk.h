/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * footprint_walk.h - the state of footprint.c's walk, and what it asks of
 * footprint_moves.c: versions of weights (STEP) and what ranks leave with their
 * partners (EVICT, LOAD).
 */
#ifndef PENSTOCK_STAGES_FOOTPRINT_WALK_H
#define PENSTOCK_STAGES_FOOTPRINT_WALK_H

#include "stages/footprint.h"

/* In place of a message in flight: not yet made, or made on the same rank. */
enum { PST__NOT_YET = -1, PST__LOCAL = -2 };

/* The buffers of one stage and microbatch, while they live. */
typedef struct pst__held {
    uint32_t input;
    uint32_t output_grad;
    uint32_t saved_for_input;
    uint32_t saved_for_weight;
    uint32_t kept;
    uint32_t sequence; /* at slice 0, for all slices                           */
    uint32_t waiting;
    uint32_t away[3];
    uint32_t version;   /* of the weights that it uses                           */
    int64_t activation; /* the message that brings `input`, or PST__NOT_YET ... */
    int64_t gradient;   /* the message that brings `output_grad`               */
} pst__held;

/* One version of a stage's weights. */
typedef struct pst__version {
    uint32_t users; /* microbatches that are not through with it               */
    uint32_t slot;  /* where it is once it is not the newest                   */
} pst__version;

typedef struct pst__walk {
    const pst_schedule *schedule;
    const pst_stage *stages;
    const int *rank_of_stage;
    pst_footprint *footprint;
    size_t *cursor; /* [ranks] actions walked                                 */
    int *queue;     /* [ranks] ranks that may be able to go on                */
    bool *queued;   /* [ranks]                                                */
    int queue_head;
    int queue_count;
    pst_slots *slots;       /* [ranks]                                           */
    pst_slots *away;        /* [ranks] of what is evicted, in the partner's arena */
    pst__version *versions; /* [stages][updates + 1]; NULL: no updates           */
    uint32_t *newest;       /* [stages] STEPs walked                             */
    uint32_t *next_merge;   /* [stages] gradients that are due or past: see due_at() */
    size_t *merge_room;     /* [ranks]                                           */
    pst__held *held;        /* [stages][microbatches]                            */
    pst_links *links;
} pst__walk;

static inline pst__held *pst__held_of(const pst__walk *w, int stage,
                                      uint32_t microbatch)
{
    return &w->held[(size_t)stage * (size_t)w->footprint->microbatches + microbatch];
}

/* A slot of `owner` for the next action of `rank`. */
static inline bool pst__walk_take(pst__walk *w, int rank, int owner, size_t bytes,
                                  uint32_t *slot)
{
    return pst__slots_take(&w->slots[owner], bytes,
                           pst__links_ended(w->links, rank, owner), slot);
}

/* The action ends that last uses a slot of its own rank. */
static inline void pst__walk_release(pst__walk *w, int rank, uint32_t *slot)
{
    pst__slots_release(&w->slots[rank], *slot, (uint32_t)w->cursor[rank] + 1);
    *slot = PST__NONE;
}

/* Who uses which version. False: no memory, here and below. */
bool pst__walk_prepare_versions(pst__walk *w);
void pst__walk_use_weights(const pst__walk *w, pst_step *step, const pst__held *h);
void pst__walk_end_use(pst__walk *w, int rank, int stage, const pst__held *h);
bool pst__walk_update(pst__walk *w, int rank, pst_step *step);
bool pst__walk_evict(pst__walk *w, int rank, const pst_stage *s, pst_step *step,
                     pst__held *h);
bool pst__walk_load(pst__walk *w, int rank, const pst_stage *s, pst_step *step,
                    pst__held *h);

/* After the walk: what a rank evicts stands behind its partner's own slots. */
bool pst__walk_place_evicted(pst__walk *w);

#endif
