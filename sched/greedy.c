/* SPDX-License-Identifier: BSD-3-Clause */
/* greedy.c - see greedy.h. One event a time: the rank that is free first acts.
 */
#include "sched/greedy.h"

#include <string.h>

#include "sched/row.h"

enum { NOT_YET = -1 };

/* What a rank could do next: the least start wins, then the least rank of
 * preference. */
typedef struct choice {
    int op;
    int stage;
    long long start;
    int preference;
} choice;

typedef struct scheduling {
    const pst_greedy *how;
    const pst_env *env;
    pst_schedule_builder *builder;
    const pst_schedule *shape;
    int ranks, stages, microbatches;
    long long *forward_end;  /* [stages][m] or NOT_YET                         */
    long long *backward_end; /* the same of B or I                                    */
    int *next_forward;       /* [stages] microbatch                            */
    int *next_backward;
    int *next_weight;
    choice *choices;    /* [ranks] what each would do next                       */
    long long *free_at; /* [ranks]                                            */
    int *held;          /* [stages] microbatches                          */
    int rule;           /* 0 .. RULES - 1: see preference_of()                        */
    size_t left;        /* actions to place                                           */
} scheduling;

static size_t at(const scheduling *s, int stage, int microbatch)
{
    return (size_t)stage * (size_t)s->microbatches + (size_t)microbatch;
}

/* When the next F of `stage` can start, or NOT_YET. */
static long long forward_ready(const scheduling *s, int stage)
{
    const int microbatch = s->next_forward[stage];
    const int previous = pst_schedule_previous_stage(s->shape, stage);
    if (microbatch == s->microbatches)
        return NOT_YET;
    return previous < 0 ? 0 : s->forward_end[at(s, previous, microbatch)];
}

static long long backward_ready(const scheduling *s, int stage)
{
    const int microbatch = s->next_backward[stage];
    const int next = pst_schedule_next_stage(s->shape, stage);
    if (microbatch == s->microbatches)
        return NOT_YET;
    const long long own = s->forward_end[at(s, stage, microbatch)];
    if (next < 0 || own == NOT_YET)
        return own;
    const long long gradient = s->backward_end[at(s, next, microbatch)];
    return gradient == NOT_YET ? NOT_YET : gradient > own ? gradient : own;
}

static void offer(const scheduling *s, choice *best, int op, int stage, long long ready,
                  int preference)
{
    const int rank = s->how->rank_of_stage[stage];
    if (ready == NOT_YET)
        return;
    const long long start = ready > s->free_at[rank] ? ready : s->free_at[rank];
    if (best->op >= 0 && (start > best->start ||
                          (start == best->start && preference >= best->preference)))
        return;
    *best = (choice){op, stage, start, preference};
}

enum { RULES = 12 };

/* The lower the better: a rule says which kind comes first and which stage among them.
 */
static int preference_of(const scheduling *s, int op, int stage, int microbatch)
{
    const int per = s->stages / pst_schedule_replicas(s->shape);
    const int to_end = per - 1 - stage % per, from_start = stage % per;
    const int kind = op == PST_OP_BACKWARD_WEIGHT             ? 2
                     : (op == PST_OP_FORWARD) ^ (s->rule % 2) ? 1
                                                              : 0;
    const int order = s->rule / 2 % 3;
    const int depth = order == 0 ? to_end : order == 1 ? from_start : microbatch;
    const int most = per > s->microbatches ? per : s->microbatches;
    /* The last rules look at the stage alone, whatever is to be done there. */
    return s->rule < RULES / 2 ? kind * most + depth : 2 * depth + kind;
}

static choice best_of(const scheduling *s, int rank)
{
    choice best = {.op = -1};
    const int backward = s->how->split ? PST_OP_BACKWARD_INPUT : PST_OP_BACKWARD;
    for (int stage = 0; stage < s->stages; stage++) {
        const int f = s->next_forward[stage], b = s->next_backward[stage];
        if (s->how->rank_of_stage[stage] != rank)
            continue;
        offer(s, &best, backward, stage, backward_ready(s, stage),
              preference_of(s, backward, stage, b));
        if (s->how->limit == NULL || s->held[stage] < s->how->limit[stage])
            offer(s, &best, PST_OP_FORWARD, stage, forward_ready(s, stage),
                  preference_of(s, PST_OP_FORWARD, stage, f));
        if (s->next_weight[stage] < b)
            offer(
                s, &best, PST_OP_BACKWARD_WEIGHT, stage,
                s->backward_end[at(s, stage, s->next_weight[stage])],
                preference_of(s, PST_OP_BACKWARD_WEIGHT, stage, s->next_weight[stage]));
    }
    return best;
}

static pst_status place(scheduling *s, int rank, const choice *what, pst_error *err)
{
    const int stage = what->stage;
    pst_action action = {.op = (uint8_t)what->op, .stage = (uint16_t)stage};
    long long end = what->start;
    switch (what->op) {
    case PST_OP_FORWARD:
        action.microbatch = (uint32_t)s->next_forward[stage]++;
        end += s->how->forward;
        s->forward_end[at(s, stage, (int)action.microbatch)] = end;
        s->held[stage]++;
        break;
    case PST_OP_BACKWARD_WEIGHT:
        action.microbatch = (uint32_t)s->next_weight[stage]++;
        end += s->how->backward_weight;
        s->held[stage]--;
        break;
    default:
        action.microbatch = (uint32_t)s->next_backward[stage]++;
        end += s->how->backward_input;
        if (what->op == PST_OP_BACKWARD) {
            end += s->how->backward_weight;
            s->next_weight[stage]++;
            s->held[stage]--;
        }
        s->backward_end[at(s, stage, (int)action.microbatch)] = end;
    }
    s->free_at[rank] = end;
    s->left--;
    if (s->builder == NULL)
        return PST_OK; /* only tried */
    return pst_schedule_builder_append(s->builder, rank, action, err);
}

/* What stands on these ranks may have changed, so their choices are made anew. */
static void look_again(scheduling *s, int stage)
{
    if (stage >= 0)
        s->choices[s->how->rank_of_stage[stage]] =
            best_of(s, s->how->rank_of_stage[stage]);
}

static pst_status run(scheduling *s, pst_error *err)
{
    for (int rank = 0; rank < s->ranks; rank++)
        s->choices[rank] = best_of(s, rank);
    while (s->left > 0) {
        int who = -1;
        for (int rank = 0; rank < s->ranks; rank++)
            if (s->choices[rank].op >= 0 &&
                (who < 0 || s->choices[rank].start < s->choices[who].start))
                who = rank;
        if (who < 0)
            return pst_error_set(err, PST_EDEADLOCK,
                                 "no rank can go on within its memory limit; a higher "
                                 "one would work");
        const choice what = s->choices[who];
        const pst_status status = place(s, who, &what, err);
        if (status != PST_OK)
            return status;
        look_again(s, what.stage);
        look_again(s, pst_schedule_next_stage(s->shape, what.stage));
        look_again(s, pst_schedule_previous_stage(s->shape, what.stage));
    }
    return PST_OK;
}

static pst_status allocate(scheduling *s, pst_error *err)
{
    const size_t stages = (size_t)s->stages, ranks = (size_t)s->ranks;
    const size_t cells = stages * (size_t)s->microbatches;
    s->forward_end = pst_allocate_array(s->env, cells, sizeof *s->forward_end);
    s->backward_end = pst_allocate_array(s->env, cells, sizeof *s->backward_end);
    s->next_forward = pst_allocate_array(s->env, stages, sizeof *s->next_forward);
    s->next_backward = pst_allocate_array(s->env, stages, sizeof *s->next_backward);
    s->next_weight = pst_allocate_array(s->env, stages, sizeof *s->next_weight);
    s->free_at = pst_allocate_array(s->env, ranks, sizeof *s->free_at);
    s->held = pst_allocate_array(s->env, stages, sizeof *s->held);
    s->choices = pst_allocate_array(s->env, ranks, sizeof *s->choices);
    if (s->forward_end == NULL || s->backward_end == NULL || s->next_forward == NULL ||
        s->next_backward == NULL || s->next_weight == NULL || s->free_at == NULL ||
        s->held == NULL || s->choices == NULL)
        return pst_error_no_memory(err, "a schedule", cells * sizeof *s->forward_end);
    return PST_OK;
}

static void reset(scheduling *s, int rule)
{
    const size_t stages = (size_t)s->stages;
    const size_t cells = stages * (size_t)s->microbatches;
    memset(s->forward_end, 0xff, cells * sizeof *s->forward_end);
    memset(s->backward_end, 0xff, cells * sizeof *s->backward_end);
    memset(s->next_forward, 0, stages * sizeof *s->next_forward);
    memset(s->next_backward, 0, stages * sizeof *s->next_backward);
    memset(s->next_weight, 0, stages * sizeof *s->next_weight);
    memset(s->held, 0, stages * sizeof *s->held);
    memset(s->free_at, 0, (size_t)s->ranks * sizeof *s->free_at);
    s->left = cells * (s->how->split ? 3 : 2);
    s->rule = rule;
}

static long long makespan_of(const scheduling *s)
{
    long long last = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        if (s->free_at[rank] > last)
            last = s->free_at[rank];
    return last;
}

/* The rule that gives the shortest list. */
static int choose(scheduling *s)
{
    int best = 0;
    long long shortest = 0;
    for (int rule = 0; rule < RULES; rule++) {
        reset(s, rule);
        if (run(s, NULL) != PST_OK || (rule > 0 && makespan_of(s) >= shortest))
            continue;
        shortest = makespan_of(s);
        best = rule;
    }
    return best;
}

pst_status pst__greedy_fill(pst_schedule_builder *builder, const pst_greedy *how,
                            pst_error *err)
{
    scheduling s = {.how = how,
                    .env = pst__schedule_builder_env(builder),
                    .shape = pst__schedule_builder_shape(builder)};
    s.ranks = pst_schedule_ranks(s.shape);
    s.stages = pst_schedule_stages(s.shape);
    s.microbatches = pst_schedule_microbatches(s.shape);
    pst_status status = allocate(&s, err);
    if (status == PST_OK) {
        reset(&s, choose(&s));
        s.builder = builder;
        status = run(&s, err);
    }
    pst_release(s.env, s.forward_end);
    pst_release(s.env, s.backward_end);
    pst_release(s.env, s.next_forward);
    pst_release(s.env, s.next_backward);
    pst_release(s.env, s.next_weight);
    pst_release(s.env, s.free_at);
    pst_release(s.env, s.held);
    pst_release(s.env, s.choices);
    return status;
}
