/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_zb_auto.c - ZB-1p and ZB-2p: zero bubble for given costs in a given memory.
 *
 * Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 3.1, and its
 * authors' program (create_schedule). The heuristic here is our own in their spirit.
 *
 * Rule: rank r holds stage r. It first runs as many forwards as fit before its first
 * gradient can arrive, then one I and one F in turn, then the I that are left; weave.h
 * says where W goes. Each candidate is a depth of the warm-up and a rule for W. The
 * best of them are improved rank by rank, with forwards more or fewer in the warm-up,
 * and the one with the least time from a rank's first start to its last end is taken.
 */
#include <math.h>
#include <string.h>

#include "sched/generator.h"
#include "sched/weave.h"

static const char *const one_aliases[] = {"zb1p", NULL};
static const char *const two_aliases[] = {"zb2p", NULL};

typedef struct candidate {
    double round_up; /* one forward more than fits where so much of it does    */
    double depth;    /* warm-up of at most depth (p-1-r) + 1                   */
    pst_greed greed;
} candidate;

typedef struct search {
    pst_weave weave;
    candidate how;
    int *warm_up; /* [p] of the candidate                                      */
    int *adjust;  /* [p] forwards more in the warm-up, or fewer                */
    int *chosen;  /* [p] the best adjustments so far                           */
    int *places;  /* [p]                                                       */
    double *ones; /* [p]                                                       */
} search;

/* Forwards that fit on `r` before the first gradient is there. */
static int fitting(const search *s, int r)
{
    const pst_weave *t = &s->weave;
    double gradient = 0, start = 0;
    for (int k = 0; k < t->ranks; k++)
        gradient += t->f[k] + (k > 0 ? t->latency : 0);
    for (int k = t->ranks - 1; k > r; k--)
        gradient += t->i[k] + t->latency;
    for (int k = 0; k < r; k++)
        start += t->f[k] + t->latency;
    const double room = t->f[r] > 0 ? (gradient - start) / t->f[r] : 2 * t->ranks;
    const double whole = floor(room + 1e-9);
    return (int)fmin(whole + (room - whole > s->how.round_up + 1e-9), 1e9);
}

static int most_forwards(const search *s)
{
    return (int)fmin(floor(s->weave.limit), s->weave.microbatches);
}

static void set_warm_ups(search *s)
{
    int below = 0; /* of the rank behind: warm-ups fall from rank to rank */
    for (int r = s->weave.ranks - 1; r >= 0; r--) {
        const double deep = ceil((s->weave.ranks - 1 - r) * s->how.depth) + 1;
        int n = pst__min(fitting(s, r), (int)fmin(most_forwards(s), deep));
        if (n < below + 1 && below + 1 <= most_forwards(s))
            n = below + 1;
        s->warm_up[r] = below = n > 1 ? n : 1;
    }
}

/* w forwards, then I and F in turn. */
static void set_order(search *s, int r)
{
    const int m = s->weave.microbatches;
    const int wanted = pst__min(s->warm_up[r] + s->adjust[r], most_forwards(s));
    const int warm_up = wanted > 1 ? wanted : 1;
    pst_action *next = s->weave.rank[r].order;
    for (int i = 0; i < m + warm_up; i++) {
        if (i >= warm_up)
            *next++ = (pst_action){.op = PST_OP_BACKWARD_INPUT,
                                   .stage = (uint16_t)r,
                                   .microbatch = (uint32_t)(i - warm_up)};
        if (i < m)
            *next++ = (pst_action){
                .op = PST_OP_FORWARD, .stage = (uint16_t)r, .microbatch = (uint32_t)i};
    }
}

static int try(search *s, pst_weave_score *score)
{
    s->weave.greed = s->how.greed;
    for (int r = 0; r < s->weave.ranks; r++)
        set_order(s, r);
    return pst__weave_try(&s->weave, score);
}

static const double depths[] = {1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 3};
static const double round_ups[] = {1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

enum {
    DEPTHS = sizeof depths / sizeof *depths,
    ROUND_UPS = sizeof round_ups / sizeof *round_ups,
    STEP = 3,               /* most that one warm-up is changed by at once     */
    MOST_ACTIONS = 40000000 /* tried while candidates are improved             */
};

/* Candidate number k of all. */
static void set_candidate(search *s, int k)
{
    s->how = (candidate){.round_up = round_ups[k % ROUND_UPS],
                         .greed = (pst_greed)(k / ROUND_UPS % PST_GREED_COUNT),
                         .depth = depths[k / ROUND_UPS / PST_GREED_COUNT]};
    set_warm_ups(s);
}

static pst_finalists try_all(search *s)
{
    pst_finalists list = {.most = PST_FINALISTS};
    for (int k = 0; k < ROUND_UPS * PST_GREED_COUNT * DEPTHS; k++) {
        pst_weave_score score;
        set_candidate(s, k);
        if (try(s, &score))
            pst__finalists_enter(&list, k, score);
    }
    return list;
}

/* Change one warm-up after the other as long as it helps. `best` is the score so far.
 */
static pst_weave_score improve(search *s, pst_weave_score best, double *budget)
{
    const double actions = 3.0 * s->weave.ranks * s->weave.microbatches;
    for (int helped = 1; helped && *budget > 0;) {
        helped = 0;
        for (int r = 0; r<s->weave.ranks && * budget> 0; r++)
            for (int by = -STEP; by <= STEP; by++) {
                pst_weave_score score;
                s->adjust[r] += by;
                *budget -= actions;
                if (by != 0 && try(s, &score) && pst__weave_is_better(score, best)) {
                    best = score;
                    helped = 1;
                } else {
                    s->adjust[r] -= by;
                }
            }
    }
    return best;
}

/* The best candidate, as orders in the weave. False: none fits into memory. */
static int choose(search *s)
{
    const pst_finalists list = try_all(s);
    const size_t bytes = (size_t)s->weave.ranks * sizeof *s->adjust;
    double budget = MOST_ACTIONS;
    pst_weave_score best = list.score[0];
    int chosen = list.key[0];
    for (int i = 0; i < list.count && budget > 0; i++) {
        memset(s->adjust, 0, bytes);
        set_candidate(s, list.key[i]);
        const pst_weave_score improved = improve(s, list.score[i], &budget);
        if (i > 0 && !pst__weave_is_better(improved, best))
            continue;
        best = improved;
        chosen = list.key[i];
        memcpy(s->chosen, s->adjust, bytes);
    }
    if (list.count == 0)
        return 0;
    memcpy(s->adjust, s->chosen, bytes);
    set_candidate(s, chosen);
    return try(s, &best);
}

static pst_status begin(search *s, const pst_env *env, pst_error *err)
{
    const size_t p = (size_t)s->weave.ranks;
    s->warm_up = pst_allocate_array(env, p, sizeof(int));
    s->adjust = pst_allocate_array(env, p, sizeof(int));
    s->chosen = pst_allocate_array(env, p, sizeof(int));
    s->places = pst_allocate_array(env, p, sizeof(int));
    s->ones = pst_allocate_array(env, p, sizeof(double));
    if (!s->warm_up || !s->adjust || !s->chosen || !s->places || !s->ones)
        return pst_error_no_memory(err, "a schedule", p * sizeof(double));
    for (size_t r = 0; r < p; r++) {
        s->places[r] = (int)r;
        s->ones[r] = 1;
    }
    s->weave.rank_of_stage = s->places;
    return pst__weave_init(&s->weave, env, err);
}

static void end(search *s, const pst_env *env)
{
    pst__weave_fini(&s->weave, env);
    pst_release(env, s->warm_up);
    pst_release(env, s->adjust);
    pst_release(env, s->chosen);
    pst_release(env, s->places);
    pst_release(env, s->ones);
}

static pst_status fill(pst_schedule_builder *builder, const pst_shape *shape,
                       double limit, pst_error *err)
{
    const pst_env *env = pst__schedule_builder_env(builder);
    const pst_costs *given = shape->costs;
    search s = {
        .weave = {.ranks = shape->ranks,
                  .stages = shape->ranks,
                  .microbatches = shape->microbatches,
                  .latency = given ? given->latency : 0,
                  .limit = shape->memory_limit > 0 ? shape->memory_limit : limit,
                  .freed_at_input = shape->freed_at_input}};
    pst_status status = begin(&s, env, err);
    s.weave.f = given && given->forward ? given->forward : s.ones;
    s.weave.i = given && given->backward_input ? given->backward_input : s.ones;
    s.weave.w = given && given->backward_weight ? given->backward_weight : s.ones;
    if (status == PST_OK && !choose(&s))
        status =
            pst_error_set(err, PST_EINVAL,
                          "a memory limit of %g microbatches a rank is too low for "
                          "any order; 1 or more works",
                          s.weave.limit);
    if (status == PST_OK)
        status = pst__weave_write(&s.weave, builder, err);
    end(&s, env);
    return status;
}

static pst_status fill_1p(pst_schedule_builder *builder, const pst_shape *shape,
                          pst_error *err)
{
    return fill(builder, shape, shape->ranks, err);
}

static pst_status fill_2p(pst_schedule_builder *builder, const pst_shape *shape,
                          pst_error *err)
{
    return fill(builder, shape, 2.0 * shape->ranks, err);
}

const pst_generator pst__zb_1p = {
    .kind = {.name = "zb-1p",
             .aliases = one_aliases,
             .summary = "zero bubble for your costs, in the memory of 1F1B",
             .source = "Qi et al. 2024 (zero bubble), create_schedule",
             .needs = "any p and m; one stage a rank; follows costs and memory limit",
             .costs = "idle about (p-1)(F+I-W); holds p microbatches",
             .uses_costs = 1},
    .fill_all = fill_1p,
    .options = PST_SHAPE_MEMORY,
};

const pst_generator pst__zb_2p = {
    .kind = {.name = "zb-2p",
             .aliases = two_aliases,
             .summary = "zero bubble for your costs, in twice the memory of 1F1B",
             .source = "Qi et al. 2024 (zero bubble), create_schedule",
             .needs = "any p and m; one stage a rank; follows costs and memory limit",
             .costs =
                 "next to no time lost between a rank's first start and last end for "
                 "m >= 2p; holds 2p microbatches",
             .uses_costs = 1},
    .fill_all = fill_2p,
    .options = PST_SHAPE_MEMORY,
};
