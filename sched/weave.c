/* SPDX-License-Identifier: BSD-3-Clause */
/* weave.c - see weave.h. */
#include "sched/weave.h"

#include <math.h>
#include <string.h>

/* Times that differ by less are the same. */
static const double near = 1e-9;

pst_status pst__weave_init(pst_weave *weave, const pst_env *env, pst_error *err)
{
    const size_t m = (size_t)weave->microbatches;
    const size_t cells = (size_t)weave->stages * m;
    weave->rank = pst_allocate_array(env, (size_t)weave->ranks, sizeof *weave->rank);
    weave->forward_end = pst_allocate_array(env, cells, sizeof(double));
    weave->input_end = pst_allocate_array(env, cells, sizeof(double));
    if (!weave->rank || !weave->forward_end || !weave->input_end)
        return pst_error_no_memory(err, "a schedule", cells * sizeof(double));
    for (int stage = 0; stage < weave->stages; stage++)
        weave->rank[weave->rank_of_stage[stage]].count += 2 * m;
    for (int r = 0; r < weave->ranks; r++) {
        pst_weave_rank *rank = &weave->rank[r];
        rank->order = pst_allocate_array(env, rank->count, sizeof *rank->order);
        rank->waiting = pst_allocate_array(env, rank->count, sizeof *rank->waiting);
        if (!rank->order || !rank->waiting)
            return pst_error_no_memory(err, "a schedule", cells * sizeof(pst_action));
    }
    return PST_OK;
}

void pst__weave_fini(pst_weave *weave, const pst_env *env)
{
    for (int r = 0; weave->rank && r < weave->ranks; r++) {
        pst_release(env, weave->rank[r].order);
        pst_release(env, weave->rank[r].waiting);
    }
    pst_release(env, weave->rank);
    pst_release(env, weave->forward_end);
    pst_release(env, weave->input_end);
}

static size_t at(const pst_weave *t, int stage, uint32_t microbatch)
{
    return (size_t)stage * (size_t)t->microbatches + microbatch;
}

static pst_status put(pst_weave *t, int r, pst_action action, int op)
{
    action.op = (uint8_t)op;
    if (t->builder == NULL)
        return PST_OK;
    return pst_schedule_builder_append(t->builder, r, action, t->err);
}

static pst_status put_weight(pst_weave *t, int r)
{
    pst_weave_rank *s = &t->rank[r];
    const pst_action action = s->waiting[s->first++];
    s->now += t->w[action.stage];
    s->held -= 1 - t->freed_at_input;
    s->kept--;
    return put(t, r, action, PST_OP_BACKWARD_WEIGHT);
}

/* When a value that was made at `made` on the stage beside can be used; below 0: not
 * yet. */
static double arrival(const pst_weave *t, double made, int from, int r)
{
    return made < 0 || t->rank_of_stage[from] == r ? made : made + t->latency;
}

/* When `action` of rank r can start, or below 0 where that is not known yet. */
static double ready_at(const pst_weave *t, int r, pst_action action)
{
    const int stage = action.stage;
    if (action.op == PST_OP_FORWARD)
        return stage == 0
                   ? 0
                   : arrival(t, t->forward_end[at(t, stage - 1, action.microbatch)],
                             stage - 1, r);
    const double own = t->forward_end[at(t, stage, action.microbatch)];
    if (own < 0 || stage + 1 == t->stages)
        return own;
    const double gradient =
        arrival(t, t->input_end[at(t, stage + 1, action.microbatch)], stage + 1, r);
    return gradient < 0 ? gradient : fmax(own, gradient);
}

static int fits(const pst_weave *t, int r, double wait)
{
    const pst_weave_rank *s = &t->rank[r];
    const double weight = t->w[s->waiting[s->first].stage];
    if (weight <= wait + near)
        return 1;
    switch (t->greed) {
    case PST_GREED_OTHERS:
        return wait > t->worst - s->lost + near;
    case PST_GREED_HALF:
        return wait > weight / 2;
    case PST_GREED_ALWAYS:
        return 1;
    default:
        return 0;
    }
}

/* W in front of an action that can start at `ready`. False: memory is too short. */
static int fill_wait(pst_weave *t, int r, int forward, double ready, pst_status *status)
{
    pst_weave_rank *s = &t->rank[r];
    while (forward && s->held > t->limit - 1 + near) {
        if (s->first == s->last || *status != PST_OK)
            return 0;
        *status = put_weight(t, r);
    }
    while (s->first < s->last && s->now < ready - near && *status == PST_OK &&
           fits(t, r, ready - s->now))
        *status = put_weight(t, r);
    return 1;
}

static void wait_until(pst_weave *t, pst_weave_rank *s, double ready)
{
    if (s->now >= ready)
        return;
    s->lost += ready - s->now;
    t->worst = fmax(t->worst, s->lost);
    s->now = ready;
}

static void run_forward(pst_weave *t, pst_weave_rank *s, pst_action action)
{
    s->now += t->f[action.stage];
    t->forward_end[at(t, action.stage, action.microbatch)] = s->now;
    s->held += 1;
    if (++s->kept > t->peak)
        t->peak = s->kept;
}

static void run_backward(pst_weave *t, pst_weave_rank *s, pst_action action)
{
    s->now += t->i[action.stage] + (t->whole ? t->w[action.stage] : 0);
    t->input_end[at(t, action.stage, action.microbatch)] = s->now;
    s->held -= t->whole ? 1 : t->freed_at_input;
    if (t->whole)
        s->kept--;
    else
        s->waiting[s->last++] = action;
}

/* 1: one more action of `r`; 0: it has to wait for others; -1: memory is too short. */
static int advance(pst_weave *t, int r, pst_status *status)
{
    pst_weave_rank *s = &t->rank[r];
    if (s->done == s->count || *status != PST_OK)
        return 0;
    const pst_action action = s->order[s->done];
    const int forward = action.op == PST_OP_FORWARD;
    const double ready = ready_at(t, r, action);
    if (ready < 0)
        return 0;
    if (s->done == 0)
        s->now = s->begun = ready;
    if (!fill_wait(t, r, forward, ready, status))
        return -1;
    wait_until(t, s, ready);
    if (forward)
        run_forward(t, s, action);
    else
        run_backward(t, s, action);
    s->done++;
    if (*status == PST_OK)
        *status = put(t, r, action, !forward && t->whole ? PST_OP_BACKWARD : action.op);
    return 1;
}

static void reset(pst_weave *t)
{
    const size_t cells = (size_t)t->stages * (size_t)t->microbatches;
    for (size_t k = 0; k < cells; k++)
        t->forward_end[k] = t->input_end[k] = -1;
    for (int r = 0; r < t->ranks; r++) {
        pst_weave_rank *s = &t->rank[r];
        s->done = s->first = s->last = 0;
        s->now = s->begun = s->lost = s->held = 0;
        s->kept = 0;
    }
    t->worst = 0;
    t->peak = 0;
}

/* False: memory is too short, or the ranks wait for each other. */
static int run(pst_weave *t, pst_status *status)
{
    reset(t);
    for (int moved = 1; moved && *status == PST_OK;) {
        moved = 0;
        for (int r = 0; r < t->ranks; r++)
            for (int step; (step = advance(t, r, status)) != 0; moved = 1)
                if (step < 0)
                    return 0;
    }
    for (int r = 0; r < t->ranks; r++)
        if (t->rank[r].done < t->rank[r].count)
            return 0;
    for (int r = 0; r < t->ranks; r++)
        while (t->rank[r].first < t->rank[r].last && *status == PST_OK)
            *status = put_weight(t, r);
    return 1;
}

/* The place in rank r's order of what it should run next, and when that starts; its
 * count where nothing is ready yet. What stands before a forward brought up holds one
 * place more meanwhile; a forward of the first half leaves another free for the second.
 */
static size_t earliest(const pst_weave *t, int r, double *start)
{
    const pst_weave_rank *s = &t->rank[r];
    const size_t end = s->done + 4 * (size_t)t->ranks;
    size_t found = s->count;
    double held = s->held, most = held;
    for (size_t k = s->done; k < s->count && k < end; k++) {
        const pst_action action = s->order[k];
        const int forward = action.op == PST_OP_FORWARD;
        const int places = action.stage < t->stages / 2 ? 2 : 1;
        if (k > s->done && most + 1 > t->limit + near)
            break;
        if (k == s->done || (forward && most + places <= t->limit + near)) {
            const double ready = ready_at(t, r, action);
            const double then = fmax(ready, s->now);
            if (ready >= 0 && (found == s->count || then < *start - near)) {
                found = k;
                *start = then;
            }
            if (found < s->count && *start <= s->now + near)
                break;
        }
        held += forward ? 1 : -1;
        most = fmax(most, held);
    }
    return found;
}

static void bring_up(pst_weave_rank *s, size_t place)
{
    const pst_action action = s->order[place];
    memmove(s->order + s->done + 1, s->order + s->done,
            (place - s->done) * sizeof *s->order);
    s->order[s->done] = action;
}

/* As if W, which is not placed yet, freed what it does at once and took no time. */
static void run_backward_early(pst_weave *t, pst_weave_rank *s, pst_action action)
{
    s->now += t->i[action.stage] + (t->whole ? t->w[action.stage] : 0);
    t->input_end[at(t, action.stage, action.microbatch)] = s->now;
    s->held -= 1;
}

/* Of all ranks, run what starts first. False: nothing can start. */
static int advance_first(pst_weave *t)
{
    int first = -1;
    size_t place = 0;
    double start = 0;
    for (int r = 0; r < t->ranks; r++) {
        double then = 0;
        const size_t found = earliest(t, r, &then);
        if (found == t->rank[r].count || (first >= 0 && then >= start - near))
            continue;
        first = r;
        place = found;
        start = then;
    }
    if (first < 0)
        return 0;
    pst_weave_rank *s = &t->rank[first];
    bring_up(s, place);
    s->now = start;
    if (s->order[s->done].op == PST_OP_FORWARD)
        run_forward(t, s, s->order[s->done]);
    else
        run_backward_early(t, s, s->order[s->done]);
    s->done++;
    return 1;
}

void pst__weave_bring_up(pst_weave *weave)
{
    reset(weave);
    while (advance_first(weave))
        ;
}

int pst__weave_try(pst_weave *weave, pst_weave_score *score)
{
    pst_status status = PST_OK;
    weave->builder = NULL;
    if (!run(weave, &status))
        return 0;
    *score = (pst_weave_score){.peak = weave->peak};
    for (int r = 0; r < weave->ranks; r++) {
        const pst_weave_rank *s = &weave->rank[r];
        score->longest = fmax(score->longest, s->now - s->begun);
        score->makespan = fmax(score->makespan, s->now);
    }
    return 1;
}

pst_status pst__weave_write(pst_weave *weave, pst_schedule_builder *builder,
                            pst_error *err)
{
    pst_status status = PST_OK;
    weave->builder = builder;
    weave->err = err;
    if (!run(weave, &status) && status == PST_OK)
        return pst_error_set(err, PST_EDEADLOCK, "the order found cannot be run");
    return status;
}

int pst__weave_is_better(pst_weave_score a, pst_weave_score b)
{
    if (fabs(a.longest - b.longest) > near * b.longest)
        return a.longest < b.longest;
    if (fabs(a.makespan - b.makespan) > near * b.makespan)
        return a.makespan < b.makespan;
    return a.peak < b.peak;
}

void pst__finalists_enter(pst_finalists *list, int key, pst_weave_score score)
{
    int at = list->count;
    while (at > 0 && pst__weave_is_better(score, list->score[at - 1]))
        at--;
    if (at == list->most)
        return;
    if (list->count < list->most)
        list->count++;
    for (int k = list->count - 1; k > at; k--) {
        list->key[k] = list->key[k - 1];
        list->score[k] = list->score[k - 1];
    }
    list->key[at] = key;
    list->score[at] = score;
}
