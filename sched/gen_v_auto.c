/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_v_auto.c - V-Half, V-Min, 1F1B-V and a ZB-V for given costs: two chunks a rank
 * laid out as a V, in a given part of 1F1B's memory.
 *
 * Source: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory"; the building
 * blocks are theirs, the search for the rest is our own.
 *
 * Rule: rank r holds stages r (chunk a) and 2p-1-r (chunk b). One microbatch enters
 * every six slots, each of its F and I at a fixed slot; the orders that follow are
 * woven with W (weave.h). The blocks, with delays x, y, z of 0 to 6 slots:
 *
 *     Fa             Fb                Ia                     Ib
 *     r              2p-1-r + x        4p-1-r + x+y+z         2p+r + x+y      V-Min
 *     2r             3p-2-r + x        6p-2-r + x+y+z         3p-1+2r + x+y   V-Half
 *
 * 1F1B-V packs its four passes, with a backward of two slots, one after the other into
 * what is free of the six slots on each rank, and brings forwards up, or pulls every
 * pass to where it can first stand (pull.h), as V-Min does. ZB-V begins with the order
 * made by hand (gen_zb_v.c) as well. The best candidates are improved by moving single
 * actions to and fro near the two ends of a row, as long as it helps.
 */
#include <string.h>

#include "sched/generator.h"
#include "sched/pull.h"
#include "sched/weave.h"

static const char *const half_aliases[] = {"vhalf", "v_half", NULL};
static const char *const min_aliases[] = {"vmin", "v_min", NULL};
static const char *const one_aliases[] = {"1f1bv", "v1f1b", NULL};
static const char *const zb_aliases[] = {"zbv-auto", "zbv-greedy", NULL};

enum {
    PERIOD = 6,
    DELAYS = 7,
    SLOPES = 7,
    NO_SLOPE = -1,
    FINALISTS = 4,
    FARTHEST_MOVE = 4,
    MOST_TRIED = 12000000,   /* actions while candidates are tried             */
    MOST_IMPROVED = 40000000 /* and while they are improved                    */
};

/* An order, as what it is made from. */
typedef struct recipe {
    int slope; /* of a block: 1 or 2; 0: by hand; 3: packed, 4: and pulled; 5, 6:
                  1 with forwards brought up, and pulled                       */
    int delay[3];
    pst_greed greed;
} recipe;

typedef struct search {
    pst_weave weave;
    int *places;      /* [2p]                                                      */
    double *ones;     /* [2p]                                                      */
    pst_action *best; /* [p][4m] the best orders so far                        */
    int (*slot)[4];   /* [p] when microbatch 0 runs there: Fa, Fb, Ib, Ia      */
    int *pulled;      /* [p][4][m] slots of a pulled block                         */
    const pst_env *env;
    pst_error *err;
    pst_status status;
} search;

static size_t row_length(const search *s)
{
    return 4 * (size_t)s->weave.microbatches;
}

static double try_cost(const search *s)
{
    return 6.0 * s->weave.ranks * s->weave.microbatches;
}

static void set_slots(search *s, const recipe *how)
{
    const int p = s->weave.ranks, steep = how->slope == 2;
    const int x = how->delay[0], y = how->delay[1], z = how->delay[2];
    for (int r = 0; r < p; r++) {
        int *slot = s->slot[r];
        slot[0] = steep ? 2 * r : r;
        slot[1] = (steep ? 3 * p - 2 : 2 * p - 1) - r + x;
        slot[2] = (steep ? 3 * p - 1 + 2 * r : 2 * p + r) + x + y;
        slot[3] = (steep ? 6 * p - 2 : 4 * p - 1) - r + x + y + z;
    }
}

/* The first slot from `ready` on that is free in every period on rank r, beside what
 * stands there: passes 0 .. pass - 1. */
static int free_slot(const search *s, int r, int pass, int ready)
{
    const int length = pass < 2 || !s->weave.whole ? 1 : 2;
    for (int t = ready; t < ready + PERIOD; t++) {
        int clash = 0;
        for (int k = 0; k < pass; k++) {
            const int other = k < 2 || !s->weave.whole ? 1 : 2;
            const int apart = ((t - s->slot[r][k]) % PERIOD + PERIOD) % PERIOD;
            clash |= apart < other || apart > PERIOD - length;
        }
        if (!clash)
            return t;
    }
    return ready; /* no room: the order will do, though not at these times */
}

static void pack_slots(search *s, const recipe *how)
{
    const int p = s->weave.ranks;
    int ready = 0;
    for (int pass = 0; pass < 4; pass++) {
        const int length = pass < 2 || !s->weave.whole ? 1 : 2;
        ready += pass > 0 ? how->delay[pass - 1] : 0;
        for (int k = 0; k < p; k++) {
            const int r = pass % 2 == 0 ? k : p - 1 - k;
            s->slot[r][pass] = free_slot(s, r, pass, ready);
            ready = s->slot[r][pass] + length;
        }
    }
}

static pst_action action_of(const search *s, int r, int which, int microbatch)
{
    const int chunk_b = which == 1 || which == 2;
    const int stage = chunk_b ? 2 * s->weave.ranks - 1 - r : r;
    return (pst_action){.op = which < 2 ? PST_OP_FORWARD : PST_OP_BACKWARD_INPUT,
                        .stage = (uint16_t)stage,
                        .microbatch = (uint32_t)microbatch};
}

/* All microbatches of a block, by time. */
static void set_block(search *s, int r)
{
    int slot[4], next[4] = {0, 0, 0, 0};
    memcpy(slot, s->slot[r], sizeof slot);
    for (size_t i = 0; i < row_length(s); i++) {
        int first = 3; /* Ia is the last to have all its microbatches placed */
        for (int k = 3; k >= 0; k--)
            if (next[k] < s->weave.microbatches && slot[k] <= slot[first])
                first = k;
        s->weave.rank[r].order[i] = action_of(s, r, first, next[first]++);
        slot[first] += PERIOD;
    }
}

/* The F and I of the order made by hand: a run of `count` of one of the four. */
typedef struct hand {
    search *s;
    int r;
    size_t at;
    int next[4];
} hand;

static void add(hand *h, int which, int count)
{
    for (int i = 0; i < count; i++) {
        const int microbatch = h->next[which]++;
        if (microbatch < h->s->weave.microbatches)
            h->s->weave.rank[h->r].order[h->at++] =
                action_of(h->s, h->r, which, microbatch);
    }
}

static void set_by_hand(search *s, int r)
{
    enum { FA, FB, IB, IA };
    const int p = s->weave.ranks;
    const int m = s->weave.microbatches > 2 * p - 1 ? s->weave.microbatches : 2 * p - 1;
    hand h = {.s = s, .r = r};
    add(&h, FA, 2 * (p - r) - 1);
    for (int i = 0; i < r; i++)
        add(&h, FB, 1), add(&h, FA, 1);
    for (int i = 0; i < p - r; i++)
        add(&h, FB, 1), add(&h, IB, 1);
    while (h.next[FA] < m || h.next[FB] < m) {
        if (h.next[FA] < m)
            add(&h, FA, 1);
        add(&h, IA, 1), add(&h, FB, 1), add(&h, IB, 1);
    }
    for (int i = 0; i < r; i++)
        add(&h, IA, 1), add(&h, IB, 1);
    add(&h, IA, p - r);
}

/* The order of a rank whose passes were pulled: by slot. */
static void set_pulled(search *s, int r)
{
    const size_t m = (size_t)s->weave.microbatches;
    const int *slot = s->pulled + (size_t)r * PST_PASSES * m;
    int next[PST_PASSES] = {0};
    for (size_t i = 0; i < row_length(s); i++) {
        int first = -1, at = 0;
        for (int k = 0; k < PST_PASSES; k++) {
            if (next[k] == s->weave.microbatches)
                continue;
            const int own = slot[(size_t)k * m + (size_t)next[k]];
            if (first < 0 || own < at) {
                first = k;
                at = own;
            }
        }
        s->weave.rank[r].order[i] = action_of(s, r, first, next[first]++);
    }
}

static void set_orders(search *s, const recipe *how)
{
    /* Dear, and no help to looser blocks. */
    const int tight = how->delay[0] + how->delay[1] + how->delay[2] <= 1;
    const int pulls = (how->slope == 4 && tight) || how->slope == 6;
    s->weave.greed = how->greed;
    if (how->slope == 3 || how->slope == 4)
        pack_slots(s, how);
    else
        set_slots(s, how);
    if (pulls && s->status == PST_OK)
        s->status = pst__pull(s->env, s->weave.ranks, s->weave.microbatches,
                              (int)s->weave.limit, s->weave.whole,
                              (const int(*)[4])s->slot, s->pulled, s->err);
    for (int r = 0; r < s->weave.ranks; r++)
        if (how->slope == 0)
            set_by_hand(s, r);
        else if (pulls)
            set_pulled(s, r);
        else
            set_block(s, r);
    if (pulls)
        return;
    if ((how->slope == 3 && tight) || how->slope == 5)
        pst__weave_bring_up(&s->weave);
}

/* A recipe as a number, and back. */
static int key_of(const recipe *how)
{
    const int delays =
        (how->delay[2] * DELAYS + how->delay[1]) * DELAYS + how->delay[0];
    return (delays * SLOPES + how->slope) * PST_GREED_COUNT + (int)how->greed;
}

static recipe recipe_of(int key)
{
    const int slope = key / PST_GREED_COUNT % SLOPES,
              delays = key / PST_GREED_COUNT / SLOPES;
    return (recipe){
        .slope = slope,
        .delay = {delays % DELAYS, delays / DELAYS % DELAYS, delays / DELAYS / DELAYS},
        .greed = (pst_greed)(key % PST_GREED_COUNT)};
}

static void enter_recipe(search *s, const recipe *how, pst_finalists *list)
{
    pst_weave_score score;
    set_orders(s, how);
    if (pst__weave_try(&s->weave, &score))
        pst__finalists_enter(list, key_of(how), score);
}

/* One block with each slope and each of two rules for W. */
static void enter_block(search *s, recipe how, const int slopes[3], double *budget,
                        pst_finalists *list)
{
    for (int v = 0; v < 6 && (*budget > 0 || list->count == 0); v++) {
        if (slopes[v / 2] == NO_SLOPE)
            continue;
        how.slope = slopes[v / 2];
        how.greed = (pst_greed)(v % 2);
        *budget -= try_cost(s);
        enter_recipe(s, &how, list);
    }
}

/* Blocks in order of their delays' sum, since small ones are mostly best. */
static pst_finalists try_all(search *s, const int slopes[3], int by_hand)
{
    double budget = MOST_TRIED;
    pst_finalists list = {.most = FINALISTS};
    for (int greed = 0; greed < 2 && by_hand; greed++) {
        const recipe hand = {.greed = (pst_greed)greed};
        enter_recipe(s, &hand, &list);
    }
    for (int sum = 0; sum <= 3 * (DELAYS - 1); sum++)
        for (int k = 0; k < DELAYS * DELAYS * DELAYS; k++) {
            const recipe how = {
                .delay = {k % DELAYS, k / DELAYS % DELAYS, k / DELAYS / DELAYS}};
            if (how.delay[0] + how.delay[1] + how.delay[2] == sum)
                enter_block(s, how, slopes, &budget, &list);
        }
    return list;
}

static void move(pst_action *order, size_t from, size_t to)
{
    const pst_action moved = order[from];
    if (from < to)
        memmove(order + from, order + from + 1, (to - from) * sizeof *order);
    else
        memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = moved;
}

/* Move one action of rank r forward by up to FARTHEST_MOVE places, wherever it helps.
 */
static int improve_row(search *s, int r, pst_weave_score *best, double *budget)
{
    const size_t length = row_length(s), edge = 8 * (size_t)s->weave.ranks;
    pst_action *order = s->weave.rank[r].order;
    int helped = 0;
    for (size_t to = 0; to + 1 < length && *budget > 0; to++) {
        if (to == edge && length > 2 * edge)
            to = length - edge;
        for (size_t far = 1; far <= FARTHEST_MOVE && to + far < length; far++) {
            pst_weave_score score;
            move(order, to + far, to);
            *budget -= try_cost(s);
            if (pst__weave_try(&s->weave, &score) &&
                pst__weave_is_better(score, *best)) {
                *best = score;
                helped = 1;
            } else {
                move(order, to, to + far);
            }
        }
    }
    return helped;
}

static void keep_orders(search *s)
{
    for (int r = 0; r < s->weave.ranks; r++)
        memcpy(s->best + (size_t)r * row_length(s), s->weave.rank[r].order,
               row_length(s) * sizeof *s->best);
}

static void restore_orders(search *s)
{
    for (int r = 0; r < s->weave.ranks; r++)
        memcpy(s->weave.rank[r].order, s->best + (size_t)r * row_length(s),
               row_length(s) * sizeof *s->best);
}

/* Improve the present orders until nothing helps any more, or the budget is spent. */
static pst_weave_score improve(search *s, pst_weave_score score, double budget)
{
    for (int helped = 1; helped && budget > 0;) {
        helped = 0;
        for (int r = 0; r < s->weave.ranks; r++)
            helped |= improve_row(s, r, &score, &budget);
    }
    return score;
}

/* The best orders into the weave. False: none fits into memory. */
static int choose(search *s, const int slopes[3], int by_hand)
{
    const pst_finalists list = try_all(s, slopes, by_hand);
    pst_weave_score best = list.score[0];
    pst_greed greed = PST_GREED_NEVER;
    for (int i = 0; i < list.count; i++) {
        const recipe how = recipe_of(list.key[i]);
        set_orders(s, &how);
        const pst_weave_score improved =
            improve(s, list.score[i], MOST_IMPROVED / list.count);
        if (i > 0 && !pst__weave_is_better(improved, best))
            continue;
        best = improved;
        greed = how.greed;
        keep_orders(s);
    }
    if (list.count > 0)
        restore_orders(s);
    s->weave.greed = greed;
    return list.count > 0;
}

static pst_status begin(search *s, const pst_env *env, pst_error *err)
{
    const size_t stages = 2 * (size_t)s->weave.ranks;
    s->places = pst_allocate_array(env, stages, sizeof(int));
    s->ones = pst_allocate_array(env, stages, sizeof(double));
    s->best = pst_allocate_array(env, (size_t)s->weave.ranks * row_length(s),
                                 sizeof *s->best);
    s->slot = pst_allocate_array(env, (size_t)s->weave.ranks, sizeof *s->slot);
    s->pulled = pst_allocate_array(env, (size_t)s->weave.ranks * row_length(s),
                                   sizeof *s->pulled);
    if (!s->places || !s->ones || !s->best || !s->slot || !s->pulled)
        return pst_error_no_memory(err, "a schedule", stages * sizeof(double));
    for (size_t k = 0; k < stages; k++) {
        s->places[k] = (int)(k < stages / 2 ? k : stages - 1 - k);
        s->ones[k] = 1;
    }
    s->weave.rank_of_stage = s->places;
    return pst__weave_init(&s->weave, env, err);
}

static void end(search *s, const pst_env *env)
{
    pst__weave_fini(&s->weave, env);
    pst_release(env, s->places);
    pst_release(env, s->ones);
    pst_release(env, s->best);
    pst_release(env, s->slot);
    pst_release(env, s->pulled);
}

/* What tells the kinds apart. */
typedef struct kind {
    int slopes[3]; /* that are tried, the better ones first                    */
    int by_hand;
    int whole;
    double limit; /* stage-microbatches                                        */
} kind;

static pst_status fill(pst_schedule_builder *builder, const pst_shape *shape,
                       const kind *kind, pst_error *err)
{
    const pst_env *env = pst__schedule_builder_env(builder);
    const pst_costs *given = shape->costs;
    search s = {
        .env = env,
        .err = err,
        .weave = {.ranks = shape->ranks,
                  .stages = 2 * shape->ranks,
                  .microbatches = shape->microbatches,
                  .latency = given ? given->latency : 0,
                  .limit =
                      shape->memory_limit > 0 ? 2 * shape->memory_limit : kind->limit,
                  .freed_at_input = shape->memory_limit > 0 ? shape->freed_at_input : 0,
                  .whole = kind->whole}};
    pst_status status = begin(&s, env, err);
    s.weave.f = given && given->forward ? given->forward : s.ones;
    s.weave.i = given && given->backward_input ? given->backward_input : s.ones;
    s.weave.w = given && given->backward_weight ? given->backward_weight : s.ones;
    if (status == PST_OK && !choose(&s, kind->slopes, kind->by_hand))
        status =
            pst_error_set(err, PST_EINVAL,
                          "a memory limit of %g microbatches a rank is too low for "
                          "two chunks on each of %d ranks; %d works",
                          s.weave.limit / 2, shape->ranks, (shape->ranks + 4) / 3);
    if (status == PST_OK)
        status = s.status;
    if (status == PST_OK)
        status = pst__weave_write(&s.weave, builder, err);
    end(&s, env);
    return status;
}

static pst_status fill_half(pst_schedule_builder *builder, const pst_shape *shape,
                            pst_error *err)
{
    const kind half = {.slopes = {2, 1, NO_SLOPE},
                       .limit = 2 * ((shape->ranks + 2) / 2)};
    return fill(builder, shape, &half, err);
}

static pst_status fill_min(pst_schedule_builder *builder, const pst_shape *shape,
                           pst_error *err)
{
    const kind min = {.slopes = {1, 6, 2}, .limit = 2 * ((shape->ranks + 4) / 3)};
    return fill(builder, shape, &min, err);
}

static pst_status fill_one(pst_schedule_builder *builder, const pst_shape *shape,
                           pst_error *err)
{
    const kind one = {.slopes = {4, 3, NO_SLOPE},
                      .whole = 1,
                      .limit = 2 * (2 * shape->ranks / 3 + 1)};
    return fill(builder, shape, &one, err);
}

static pst_status fill_zb(pst_schedule_builder *builder, const pst_shape *shape,
                          pst_error *err)
{
    const kind zb = {
        .slopes = {1, 2, NO_SLOPE}, .by_hand = 1, .limit = 2 * shape->ranks};
    return fill(builder, shape, &zb, err);
}

const pst_generator pst__v_half = {
    .kind = {.name = "v-half",
             .aliases = half_aliases,
             .summary = "a V of two chunks in half of 1F1B's memory",
             .source = "Qi et al. 2024 (controllable memory), zbv_greedy",
             .needs = "any p and m; 2 chunks a rank; follows costs",
             .costs = "idle about half of 1F1B's; holds floor((p+2)/2) microbatches",
             .uses_costs = 1},
    .fill_all = fill_half,
    .options = PST_SHAPE_MEMORY,
    .chunks = 2,
};

const pst_generator pst__v_min = {
    .kind = {.name = "v-min",
             .aliases = min_aliases,
             .summary = "a V of two chunks in a third of 1F1B's memory",
             .source = "Qi et al. 2024 (controllable memory), zbv_greedy",
             .needs = "any p and m; 2 chunks a rank; follows costs",
             .costs = "idle about two thirds of 1F1B's; holds floor((p+4)/3) "
                      "microbatches",
             .uses_costs = 1},
    .fill_all = fill_min,
    .options = PST_SHAPE_MEMORY,
    .chunks = 2,
};

const pst_generator pst__one_f_one_b_v = {
    .kind = {.name = "1f1b-v",
             .aliases = one_aliases,
             .summary = "a V of two chunks with whole backwards, in two thirds of "
                        "1F1B's memory",
             .source = "Qi et al. 2024 (controllable memory), v1f1b",
             .needs = "any p and m; 2 chunks a rank; follows costs",
             .costs = "idle about 0.8 of 1F1B's; holds floor(2p/3)+1 microbatches",
             .uses_costs = 1},
    .fill_all = fill_one,
    .options = PST_SHAPE_MEMORY,
    .chunks = 2,
};

const pst_generator pst__zb_v_auto = {
    .kind = {.name = "zb-v-auto",
             .aliases = zb_aliases,
             .summary = "zero bubble on a V of two chunks, for your costs",
             .source = "Qi et al. 2024 (zero bubble), zbv",
             .needs = "any p and m; 2 chunks a rank; follows costs and memory limit",
             .costs = "next to no time lost between a rank's first start and last end; "
                      "holds p microbatches",
             .uses_costs = 1},
    .fill_all = fill_zb,
    .options = PST_SHAPE_MEMORY,
    .chunks = 2,
};
