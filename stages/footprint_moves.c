/* SPDX-License-Identifier: BSD-3-Clause */
/* footprint_moves.c - versions of weights, and activations on the partner's memory. */
#include <string.h>

#include "stages/arena.h"
#include "stages/footprint_walk.h"

static pst__version *version_of(const pst__walk *w, int stage, uint32_t number)
{
    return &w->versions[(size_t)stage * ((size_t)w->footprint->updates + 1) + number];
}

/* The version that the microbatch uses, where it is not the stage's own weights. */
void pst__walk_use_weights(const pst__walk *w, pst_step *step, const pst__held *h)
{
    const int stage = step->action.stage;
    if (w->versions && pst_op_describe(step->action.op)->computes &&
        h->version < w->newest[stage])
        step->weights = version_of(w, stage, h->version)->slot;
}

/* The microbatch is through; its version of the weights too if it was the last. */
void pst__walk_end_use(pst__walk *w, int rank, int stage, const pst__held *h)
{
    if (!w->versions)
        return;
    pst__version *v = version_of(w, stage, h->version);
    if (--v->users == 0 && h->version < w->newest[stage])
        pst__walk_release(w, rank, &v->slot);
}

/* What the weights were stays where someone still needs it. */
bool pst__walk_update(pst__walk *w, int rank, pst_step *step)
{
    const int stage = step->action.stage;
    pst__version *v = version_of(w, stage, w->newest[stage]);
    step->update = w->newest[stage]++;
    if (v->users == 0)
        return true;
    const bool ok =
        pst__walk_take(w, rank, rank, w->stages[stage].weight_bytes, &v->slot);
    step->stash = v->slot;
    return ok;
}

/* The buffers that EVICT and LOAD move, with their sizes. */
static void list_moved(const pst_stage *s, pst__held *h, uint32_t *slot[3],
                       size_t bytes[3])
{
    slot[0] = &h->input;
    slot[1] = &h->saved_for_input;
    slot[2] = &h->saved_for_weight;
    bytes[0] = s->input_bytes;
    bytes[1] = s->saved_for_input_bytes;
    bytes[2] = s->saved_for_weight_bytes;
}

static void note_moved(pst_step *step, const pst__held *h)
{
    step->input = h->input;
    step->saved_for_input = h->saved_for_input;
    step->saved_for_weight = h->saved_for_weight;
    memcpy(step->away, h->away, sizeof step->away);
}

/* Both ends of a move belong to this rank's row, so its own clock orders them. */
bool pst__walk_evict(pst__walk *w, int rank, const pst_stage *s, pst_step *step,
                     pst__held *h)
{
    uint32_t *slot[3];
    size_t bytes[3];
    const uint32_t ended = pst__links_ended(w->links, rank, rank);
    list_moved(s, h, slot, bytes);
    for (int k = 0; k < 3; k++)
        if (*slot[k] != PST__NONE &&
            !pst__slots_take(&w->away[rank], bytes[k], ended, &h->away[k]))
            return false;
    note_moved(step, h);
    for (int k = 0; k < 3; k++)
        pst__walk_release(w, rank, slot[k]);
    return true;
}

bool pst__walk_load(pst__walk *w, int rank, const pst_stage *s, pst_step *step,
                    pst__held *h)
{
    uint32_t *slot[3];
    size_t bytes[3];
    list_moved(s, h, slot, bytes);
    for (int k = 0; k < 3; k++)
        if (h->away[k] != PST__NONE &&
            !pst__walk_take(w, rank, rank, bytes[k], slot[k]))
            return false;
    note_moved(step, h);
    for (int k = 0; k < 3; k++) {
        pst__slots_release(&w->away[rank], h->away[k], (uint32_t)w->cursor[rank] + 1);
        h->away[k] = PST__NONE;
    }
    return true;
}

bool pst__walk_prepare_versions(pst__walk *w)
{
    const pst_footprint *f = w->footprint;
    const size_t stages = (size_t)f->stages, m = (size_t)f->microbatches;
    if (f->updates == 0)
        return true;
    const size_t count = stages * ((size_t)f->updates + 1);
    uint32_t *used = pst_allocate_array(&f->env, m, sizeof *used);
    w->versions = pst_allocate_array(&f->env, count, sizeof *w->versions);
    if (used && w->versions) {
        for (size_t i = 0; i < count; i++)
            w->versions[i] = (pst__version){0, PST__NONE};
        for (int stage = 0; stage < f->stages; stage++) {
            pst_schedule_assign_versions(w->schedule, stage, used);
            for (size_t i = 0; i < m; i++) {
                pst__held_of(w, stage, (uint32_t)i)->version = used[i];
                version_of(w, stage, used[i])->users++;
            }
        }
    }
    const bool ok = used && w->versions;
    pst_release(&f->env, used);
    return ok;
}

bool pst__walk_place_evicted(pst__walk *w)
{
    pst_footprint *f = w->footprint;
    for (int rank = 0; rank < f->ranks; rank++) {
        const pst_slots *away = &w->away[rank];
        pst_rank_footprint *row = &f->rank[rank];
        if (away->count == 0)
            continue;
        size_t base;
        row->partner = pst_schedule_partner(w->schedule, rank);
        size_t *total = &f->rank[row->partner].bytes;
        row->away_offset =
            pst_allocate_array(&f->env, away->count, sizeof *row->away_offset);
        if (!row->away_offset || !pst__arena_reserve(total, away->bytes, &base))
            return false;
        row->away_count = away->count;
        for (uint32_t i = 0; i < away->count; i++)
            row->away_offset[i] = base + away->slot[i].offset;
    }
    return true;
}
