/* SPDX-License-Identifier: BSD-3-Clause */
/* tie.c - sums of the gradients of tied stages, by the workers. */
#include "stages/tie.h"

#include <string.h>

#include "stages/engine.h"
#include "stages/worker.h"

/* Floats that are summed before they are written: they stay in the first cache. */
enum { AT_ONCE = 1024 };

/* ---- what ties may be ---------------------------------------------------------- */

static pst_status check_member(const pst_stage *stages, int stage_count,
                               const pst_tie *tie, int number, int member,
                               pst_error *err)
{
    const pst_tie_member *m = &tie->members[member];
    const bool is_stage = m->stage >= 0 && m->stage < stage_count;
    const size_t total = is_stage ? stages[m->stage].gradient_count : 0;
    if (is_stage && m->offset <= total && tie->count <= total - m->offset)
        return PST_OK;
    return pst_error_set(err, PST_EINVAL,
                         "tie %d, member %d: %zu gradients from %zu on, and stage %d "
                         "has %zu",
                         number, member, tie->count, m->offset, m->stage, total);
}

static bool overlap(const pst_tie_member *a, size_t a_count, const pst_tie_member *b,
                    size_t b_count)
{
    return a->stage == b->stage && a->offset < b->offset + b_count &&
           b->offset < a->offset + a_count;
}

/* A member against all that come after it. */
static pst_status check_apart(const pst_tie *ties, int count, int number, int member,
                              pst_error *err)
{
    const pst_tie_member *own = &ties[number].members[member];
    for (int i = number; i < count; i++)
        for (int k = i == number ? member + 1 : 0; k < ties[i].member_count; k++)
            if (overlap(own, ties[number].count, &ties[i].members[k], ties[i].count))
                return pst_error_set(err, PST_EINVAL,
                                     "tie %d, member %d and tie %d, member %d share "
                                     "gradients of stage %d; each can be in one sum",
                                     number, member, i, k, own->stage);
    return PST_OK;
}

pst_status pst__ties_check(const pst_stage *stages, int stage_count,
                           const pst_tie *ties, int count, pst_error *err)
{
    pst_status status = PST_OK;
    for (int i = 0; i < count; i++) {
        if (ties[i].member_count < 2)
            return pst_error_set(err, PST_EINVAL,
                                 "tie %d has %d members; it needs at least 2", i,
                                 ties[i].member_count);
        for (int k = 0; k < ties[i].member_count && status == PST_OK; k++)
            status = check_member(stages, stage_count, &ties[i], i, k, err);
    }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < ties[i].member_count && status == PST_OK; k++)
            status = check_apart(ties, count, i, k, err);
    return status;
}

/* ---- making them --------------------------------------------------------------- */

static pst_status allocate(pst_ties *t, const pst_pipeline *p, size_t members,
                           pst_error *err)
{
    const pst_env *env = &p->env;
    const size_t stages = (size_t)p->stage_count;
    t->ties = pst_allocate_array(env, (size_t)t->count, sizeof *t->ties);
    t->members = pst_allocate_array(env, members, sizeof *t->members);
    t->gradients = pst_allocate_array(env, members, sizeof *t->gradients);
    t->gradients_of =
        pst_allocate_array(env, (size_t)t->count, sizeof *t->gradients_of);
    t->slices = pst_allocate_array(env, members, sizeof *t->slices);
    t->rank = pst_allocate_array(env, (size_t)p->ranks, sizeof *t->rank);
    t->weights_left = pst_allocate_array(env, stages, sizeof *t->weights_left);
    t->ready = pst_allocate_array(env, 2 * stages, sizeof *t->ready);
    return t->ties && t->members && t->gradients && t->gradients_of && t->slices &&
                   t->rank && t->weights_left && t->ready
               ? PST_OK
               : pst_error_no_memory(err, "ties", members * sizeof *t->members);
}

static void copy(pst_ties *t, const pst_pipeline *p)
{
    size_t next = 0;
    for (int i = 0; i < t->count; i++) {
        const pst_tie *tie = &p->options.ties[i];
        t->ties[i] = *tie;
        t->ties[i].members = &t->members[next];
        t->gradients_of[i] = &t->gradients[next];
        for (int k = 0; k < tie->member_count; k++, next++) {
            const pst_tie_member *m = &tie->members[k];
            t->members[next] = *m;
            if (p->stages[m->stage].gradients)
                t->gradients[next] = p->stages[m->stage].gradients + m->offset;
        }
    }
}

/* The slices of each rank, in the order of ties. */
static void share_out(pst_ties *t, const pst_pipeline *p)
{
    pst_tie_slice *next = t->slices;
    for (int rank = 0; rank < p->ranks; rank++) {
        pst_tie_rank *own = &t->rank[rank];
        own->slices = next;
        for (int i = 0; i < t->count; i++)
            for (int k = 0; k < t->ties[i].member_count; k++)
                if (p->stages[t->ties[i].members[k].stage].rank == rank)
                    own->slices[own->slice_count++] =
                        (pst_tie_slice){.tie = i, .member = k};
        next += own->slice_count;
    }
}

pst_status pst__ties_create(const pst_pipeline *pipeline, pst_ties **out,
                            pst_error *err)
{
    const pst_env *env = &pipeline->env;
    size_t members = 0;
    *out = NULL;
    if (pipeline->options.tie_count < 1)
        return PST_OK;
    pst_ties *t = pst_allocate(env, sizeof *t);
    if (!t)
        return pst_error_no_memory(err, "ties", sizeof *t);
    t->count = pipeline->options.tie_count;
    for (int i = 0; i < t->count; i++)
        members += (size_t)pipeline->options.ties[i].member_count;
    pst_status status = allocate(t, pipeline, members, err);
    if (status == PST_OK) {
        copy(t, pipeline);
        share_out(t, pipeline);
        status = pst__tie_remote_create(pipeline, t, err);
    }
    if (status == PST_OK)
        *out = t;
    else
        pst__ties_destroy(t, env);
    return status;
}

void pst__ties_destroy(pst_ties *ties, const pst_env *env)
{
    if (!ties)
        return;
    pst__tie_remote_destroy(ties, env);
    pst_release(env, ties->ready);
    pst_release(env, ties->weights_left);
    pst_release(env, ties->rank);
    pst_release(env, ties->slices);
    pst_release(env, ties->gradients_of);
    pst_release(env, ties->gradients);
    pst_release(env, ties->members);
    pst_release(env, ties->ties);
    pst_release(env, ties);
}

/* ---- readiness ------------------------------------------------------------------ */

void pst__tie_begin(pst_worker *worker)
{
    const pst_pipeline *p = worker->pipeline;
    const pst_footprint *f = p->run.program->footprint;
    if (!p->ties)
        return;
    pst_tie_rank *own = &p->ties->rank[worker->rank];
    own->open = 0;
    for (int i = 0; i < own->slice_count; i++)
        own->slices[i].done = false;
    for (int stage = 0; stage < p->stage_count; stage++)
        if (p->stages[stage].rank == worker->rank)
            p->ties->weights_left[stage] = f->training ? f->microbatches : 0;
}

bool pst__tie_is_ready(const pst_pipeline *pipeline, int word)
{
    /* seq_cst: S4 of doorbell.h, with this word in place of the count. Where it is the
     * run's number, all that the stage's worker added to its gradients is seen. */
    return atomic_load_explicit(&pipeline->ties->ready[word], memory_order_seq_cst) ==
           pipeline->run.number;
}

static bool has_member(const pst_tie *tie, int stage)
{
    for (int k = 0; k < tie->member_count; k++)
        if (tie->members[k].stage == stage)
            return true;
    return false;
}

/* Whoever waits for the gradients of this worker's rank owns a slice of one of its
 * ties. */
static void ring_owners(const pst_pipeline *p, int stage)
{
    const int rank = p->stages[stage].rank;
    for (int i = 0; i < p->ties->count; i++) {
        const pst_tie *tie = &p->ties->ties[i];
        for (int k = 0; has_member(tie, stage) && k < tie->member_count; k++)
            pst__doorbell_ring(
                &p->workers[p->stages[tie->members[k].stage].rank].doorbell, rank);
    }
}

int pst__tie_rank(const pst_pipeline *pipeline, int word)
{
    return pipeline->stages[word % pipeline->stage_count].rank;
}

void pst__tie_set_ready(const pst_pipeline *pipeline, int word)
{
    const pst_pipeline *p = pipeline;
    /* seq_cst: S1 of doorbell.h, with this word in place of the count. Before it stand
     * the gradients, which the owners of slices read and write from now on. */
    atomic_store_explicit(&p->ties->ready[word], p->run.number, memory_order_seq_cst);
    ring_owners(p, word % p->stage_count);
}

void pst__tie_count_weight(pst_worker *worker, int stage)
{
    const pst_pipeline *p = worker->pipeline;
    if (!p->ties || --p->ties->weights_left[stage] != 0)
        return;
    pst_tie_rank *own = &p->ties->rank[worker->rank];
    for (int i = 0; i < own->slice_count; i++) {
        const pst_tie_slice *slice = &own->slices[i];
        const pst_tie *tie = &p->ties->ties[slice->tie];
        own->open += tie->members[slice->member].stage == stage;
    }
    pst__tie_remote_contribute(p, stage);
    pst__worker_delay(worker);
    pst__tie_set_ready(p, stage);
}

/* ---- sums ------------------------------------------------------------------------ */

size_t pst__tie_slice_start(size_t count, int slices, int index)
{
    const size_t parts = (size_t)slices, part = (size_t)index, larger = count % parts;
    return part * (count / parts) + (part < larger ? part : larger);
}

static void add_to(float *restrict sum, const float *restrict more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += more[i];
}

void pst__tie_sum(float *const *members, int member_count, size_t first, size_t end)
{
    float sum[AT_ONCE];
    for (size_t at = first; at < end;) {
        const size_t count = end - at < AT_ONCE ? end - at : AT_ONCE;
        memcpy(sum, members[0] + at, count * sizeof *sum);
        for (int i = 1; i < member_count; i++)
            add_to(sum, members[i] + at, count);
        for (int i = 0; i < member_count; i++)
            memcpy(members[i] + at, sum, count * sizeof *sum);
        at += count;
    }
}

/* The first of a tie's stages that is not ready; -1: all are. */
static int missing(const pst_pipeline *p, const pst_tie *tie)
{
    for (int k = 0; k < tie->member_count; k++)
        if (!pst__tie_is_ready(p, tie->members[k].stage))
            return tie->members[k].stage;
    return -1;
}

int pst__tie_sum_ready(pst_worker *worker)
{
    const pst_pipeline *p = worker->pipeline;
    int awaited = -1;
    if (!p->ties || p->ties->rank[worker->rank].open == 0)
        return -1;
    pst_tie_rank *own = &p->ties->rank[worker->rank];
    for (int i = 0; i < own->slice_count; i++) {
        pst_tie_slice *slice = &own->slices[i];
        const pst_tie *tie = &p->ties->ties[slice->tie];
        if (slice->done)
            continue;
        const int stage = missing(p, tie);
        if (stage >= 0) {
            awaited = awaited < 0 ? stage : awaited;
            continue;
        }
        pst__tie_sum(
            p->ties->gradients_of[slice->tie], tie->member_count,
            pst__tie_slice_start(tie->count, tie->member_count, slice->member),
            pst__tie_slice_start(tie->count, tie->member_count, slice->member + 1));
        slice->done = true;
        own->open--;
        pst__tie_remote_hand_out(p, slice);
    }
    return awaited;
}
