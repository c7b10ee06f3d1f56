/* SPDX-License-Identifier: BSD-3-Clause */
/* tie_remote.c - sums of gradients whose members are in several processes. */
#include <string.h>

#include "stages/crossing.h"

/* A wait for the last run's sends sleeps so long before it moves them on by itself. */
enum { NAP_NS = 1000000 };

/* One part of a member's gradients, or a sum, on its way. */
typedef struct parcel {
    pst_transfer transfer;
    const pst_pipeline *pipeline;
    int word; /* that counts it; -1: none                                      */
} parcel;

typedef struct pst_tie_remote {
    pst_monitor monitor; /* guards: */
    int *left;           /* [2 stages] transfers that a word waits for         */
    size_t under_way;
    size_t used; /* parcels of this run                                        */
    parcel *parcels;
    size_t parcel_count;
    float *buffers;      /* in place of the gradients of members elsewhere      */
    pst_tie_slice *sums; /* [sum_count] of owners elsewhere, for members here   */
    int sum_count;
} pst_tie_remote;

/* ---- who is where --------------------------------------------------------------- */

static int process_of(const pst_pipeline *p, const pst_tie_member *m)
{
    return p->process_of_rank ? p->process_of_rank[p->stages[m->stage].rank] : 0;
}

static bool is_here(const pst_pipeline *p, const pst_tie_member *m)
{
    return pst__is_here(p, p->stages[m->stage].rank);
}

static int count_here(const pst_pipeline *p, const pst_tie *tie)
{
    int count = 0;
    for (int k = 0; k < tie->member_count; k++)
        count += is_here(p, &tie->members[k]);
    return count;
}

/* Has some member before number k the same process? */
static bool is_repeated(const pst_pipeline *p, const pst_tie *tie, int k)
{
    for (int i = 0; i < k; i++)
        if (process_of(p, &tie->members[i]) == process_of(p, &tie->members[k]))
            return true;
    return false;
}

/* Is it this process's affair at all, and another's too? */
static bool is_shared(const pst_pipeline *p, const pst_tie *tie)
{
    const int here = count_here(p, tie);
    return here > 0 && here < tie->member_count;
}

static size_t begin_of(const pst_tie *tie, int slice)
{
    return pst__tie_slice_start(tie->count, tie->member_count, slice);
}

/* Each member sends by two tags: its own slices, and the sums that it owns. */
static uint32_t tag_of(const pst_pipeline *p, const pst_tie_member *m, bool sum)
{
    return p->first_tag + 2 * (uint32_t)p->stage_count +
           2 * (uint32_t)(m - p->ties->members) + sum;
}

uint32_t pst__tie_remote_tags(const pst_pipeline_options *options)
{
    uint32_t members = 0;
    for (int i = 0; i < options->tie_count; i++)
        members += (uint32_t)options->ties[i].member_count;
    return 2 * members;
}

/* ---- making and ending ------------------------------------------------------------
 */

/* Slices are at most as many as members, and each goes to or comes from each. */
static size_t count_parcels(const pst_pipeline *p, const pst_ties *t, int *sums)
{
    size_t parcels = 0;
    for (int i = 0; i < t->count; i++) {
        const size_t n = (size_t)t->ties[i].member_count;
        if (!is_shared(p, &t->ties[i]))
            continue;
        parcels += n * (n + 1);
        *sums += t->ties[i].member_count - count_here(p, &t->ties[i]);
    }
    return parcels;
}

static size_t count_floats(const pst_pipeline *p, const pst_ties *t)
{
    size_t floats = 0;
    for (int i = 0; i < t->count; i++)
        if (is_shared(p, &t->ties[i]))
            floats += t->ties[i].count *
                      (size_t)(t->ties[i].member_count - count_here(p, &t->ties[i]));
    return floats;
}

static void place_buffers(const pst_pipeline *p, pst_ties *t)
{
    float *next = t->remote->buffers;
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < t->ties[i].member_count && is_shared(p, &t->ties[i]); k++) {
            if (is_here(p, &t->ties[i].members[k]))
                continue;
            t->gradients_of[i][k] = next;
            next += t->ties[i].count;
            t->remote->sums[t->remote->sum_count++] =
                (pst_tie_slice){.tie = i, .member = k};
        }
}

pst_status pst__tie_remote_create(const pst_pipeline *pipeline, pst_ties *ties,
                                  pst_error *err)
{
    const pst_env *env = &pipeline->env;
    int sums = 0;
    const size_t parcels = count_parcels(pipeline, ties, &sums);
    if (!pipeline->process_of_rank || parcels == 0)
        return PST_OK;
    pst_tie_remote *r = pst_allocate(env, sizeof *r);
    if (!r)
        return pst_error_no_memory(err, "ties over processes", sizeof *r);
    ties->remote = r;
    pst__monitor_init(&r->monitor);
    const size_t floats = count_floats(pipeline, ties);
    r->parcel_count = parcels;
    r->left =
        pst_allocate_array(env, 2 * (size_t)pipeline->stage_count, sizeof *r->left);
    r->parcels = pst_allocate_array(env, parcels, sizeof *r->parcels);
    r->buffers = pst_allocate_array(env, floats, sizeof *r->buffers);
    r->sums = pst_allocate_array(env, (size_t)sums, sizeof *r->sums);
    if (!r->left || !r->parcels || !r->buffers || !r->sums)
        return pst_error_no_memory(err, "gradients of other processes",
                                   floats * sizeof *r->buffers);
    place_buffers(pipeline, ties);
    return PST_OK;
}

static void wait_for_all(const pst_pipeline *p, pst_tie_remote *r)
{
    const pst_transport *t = p->options.transport;
    for (size_t left = 1; left > 0;) {
        pst__monitor_enter(&r->monitor);
        if (r->under_way > 0)
            pst__monitor_sleep(&r->monitor, NAP_NS);
        left = r->under_way;
        pst__monitor_leave(&r->monitor);
        if (left > 0)
            t->progress(t->self);
    }
}

void pst__tie_remote_destroy(pst_ties *ties, const pst_env *env)
{
    pst_tie_remote *r = ties->remote;
    if (!r)
        return;
    if (r->parcels && r->used > 0)
        wait_for_all(r->parcels[0].pipeline, r);
    pst__monitor_fini(&r->monitor);
    pst_release(env, r->left);
    pst_release(env, r->parcels);
    pst_release(env, r->buffers);
    pst_release(env, r->sums);
    pst_release(env, r);
}

/* ---- transfers ---------------------------------------------------------------------
 */

static void arrive(pst_transfer *transfer)
{
    const parcel *own = transfer->user;
    const pst_pipeline *p = own->pipeline;
    pst_tie_remote *r = p->ties->remote;
    pst__monitor_enter(&r->monitor);
    if (transfer->failed)
        pst__pipeline_cut((pst_pipeline *)p);
    else if (own->word >= 0 && --r->left[own->word] == 0)
        pst__tie_set_ready(p, own->word);
    if (--r->under_way == 0)
        pst__monitor_wake(&r->monitor);
    pst__monitor_leave(&r->monitor);
}

/* One more parcel; `word` has been told to expect it. */
static pst_transfer *next_parcel(const pst_pipeline *p, int word)
{
    pst_tie_remote *r = p->ties->remote;
    pst__monitor_enter(&r->monitor);
    parcel *own = &r->parcels[r->used++];
    r->under_way++;
    pst__monitor_leave(&r->monitor);
    *own = (parcel){
        .transfer = {.done = arrive, .user = own}, .pipeline = p, .word = word};
    return &own->transfer;
}

static void receive(const pst_pipeline *p, const pst_tie_member *from, bool sum,
                    float *to, size_t count, int word)
{
    const pst_transport *t = p->options.transport;
    t->receive(t->self, process_of(p, from), tag_of(p, from, sum), to,
               count * sizeof *to, next_parcel(p, word));
}

static void send(const pst_pipeline *p, const pst_tie_member *from, bool sum, int to,
                 const float *data, size_t count, int word)
{
    const pst_transport *t = p->options.transport;
    t->send(t->self, to, tag_of(p, from, sum), data, count * sizeof *data,
            count * sizeof *data, next_parcel(p, word));
}

/* What comes of a tie, in the order in which each tag's sender sends. */
static void await(const pst_pipeline *p, int number, bool post)
{
    const pst_tie *tie = &p->ties->ties[number];
    float *const *gradients = p->ties->gradients_of[number];
    int *left = p->ties->remote->left;
    for (int slice = 0; slice < tie->member_count; slice++) {
        const size_t first = begin_of(tie, slice);
        const size_t count = begin_of(tie, slice + 1) - first;
        const pst_tie_member *owner = &tie->members[slice];
        for (int k = 0; k < tie->member_count; k++) {
            const pst_tie_member *m = &tie->members[k];
            const bool here = is_here(p, m);
            if (here == is_here(p, owner))
                continue;
            /* Ours goes to a foreign owner; a foreign one's comes to an owner here. */
            const int word = here ? p->stage_count + owner->stage : m->stage;
            if (!post)
                left[word]++;
            else if (!here)
                receive(p, m, false, gradients[k] + first, count, word);
        }
        if (is_here(p, owner))
            continue;
        if (!post)
            left[p->stage_count + owner->stage]++;
        else
            receive(p, owner, true, gradients[slice] + first, count,
                    p->stage_count + owner->stage);
    }
}

void pst__tie_remote_begin(const pst_pipeline *pipeline)
{
    const pst_pipeline *p = pipeline;
    if (!p->ties || !p->ties->remote)
        return;
    pst_tie_remote *r = p->ties->remote;
    wait_for_all(p, r);
    r->used = 0;
    memset(r->left, 0, 2 * (size_t)p->stage_count * sizeof *r->left);
    for (int post = 0; post < 2; post++)
        for (int i = 0; i < p->ties->count; i++)
            if (is_shared(p, &p->ties->ties[i]))
                await(p, i, post);
}

void pst__tie_remote_contribute(const pst_pipeline *pipeline, int stage)
{
    const pst_pipeline *p = pipeline;
    if (!p->ties->remote)
        return;
    for (int i = 0; i < p->ties->count; i++) {
        const pst_tie *tie = &p->ties->ties[i];
        for (int k = 0; k < tie->member_count; k++)
            for (int slice = 0; slice < tie->member_count; slice++) {
                const pst_tie_member *owner = &tie->members[slice];
                if (tie->members[k].stage != stage || is_here(p, owner))
                    continue;
                const size_t first = begin_of(tie, slice);
                send(p, &tie->members[k], false, process_of(p, owner),
                     p->ties->gradients_of[i][k] + first,
                     begin_of(tie, slice + 1) - first, p->stage_count + owner->stage);
            }
    }
}

void pst__tie_remote_hand_out(const pst_pipeline *pipeline, const pst_tie_slice *slice)
{
    const pst_pipeline *p = pipeline;
    const pst_tie *tie = &p->ties->ties[slice->tie];
    if (!p->ties->remote)
        return;
    const size_t first = begin_of(tie, slice->member);
    for (int k = 0; k < tie->member_count; k++)
        if (!is_here(p, &tie->members[k]) && !is_repeated(p, tie, k))
            send(p, &tie->members[slice->member], true, process_of(p, &tie->members[k]),
                 p->ties->gradients_of[slice->tie][slice->member] + first,
                 begin_of(tie, slice->member + 1) - first, -1);
}

/* ---- sums that were made elsewhere --------------------------------------------------
 */

/* From the owner's buffer to all members that are here and of the worker's rank. */
static void take(const pst_worker *w, const pst_tie_slice *sum)
{
    const pst_pipeline *p = w->pipeline;
    const pst_tie *tie = &p->ties->ties[sum->tie];
    float *const *gradients = p->ties->gradients_of[sum->tie];
    const size_t first = begin_of(tie, sum->member);
    const size_t bytes = (begin_of(tie, sum->member + 1) - first) * sizeof(float);
    for (int k = 0; k < tie->member_count; k++)
        if (p->stages[tie->members[k].stage].rank == w->rank)
            memcpy(gradients[k] + first, gradients[sum->member] + first, bytes);
}

static bool has_member(const pst_worker *w, const pst_tie *tie)
{
    for (int k = 0; k < tie->member_count; k++)
        if (w->pipeline->stages[tie->members[k].stage].rank == w->rank)
            return true;
    return false;
}

int pst__tie_collect(pst_worker *worker)
{
    const pst_pipeline *p = worker->pipeline;
    const pst_footprint *f = p->run.program->footprint;
    if (!p->ties || !p->ties->remote || !f->training || f->updates > 0)
        return -1;
    const pst_tie_remote *r = p->ties->remote;
    for (int i = 0; i < r->sum_count; i++) {
        const pst_tie *tie = &p->ties->ties[r->sums[i].tie];
        const int word = p->stage_count + tie->members[r->sums[i].member].stage;
        if (has_member(worker, tie) && !pst__tie_is_ready(p, word))
            return word;
    }
    for (int i = 0; i < r->sum_count; i++)
        take(worker, &r->sums[i]);
    return -1;
}
