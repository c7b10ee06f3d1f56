/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_dualpipe.c - DualPipe and DualPipeV: forwards and backwards in
 * overlapping pairs, fed from both ends of the pipeline.
 *
 * Source: deepseek-ai/DualPipe, dualpipe.py and dualpipev.py; PyTorch
 * ScheduleDualPipeV. The V is DualPipe cut in half, an idea of Sea AI Lab.
 *
 * Rule: each rank holds two stages, a and b. DualPipe: two replicas of the
 * model, whose stages 0 .. p-1 stand on ranks 0 .. p-1 and, of the second, on
 * p-1 .. 0; a is the one that is nearer to its beginning; each takes n = m/2
 * microbatches, h = min(r, p-1-r) and t = p/2-1-h, q = p. DualPipeV: rank r
 * holds stages r and 2p-1-r of one model; n = m, h = r, t = p-1-r, q = 2p.
 *
 *     1) 2t x Fa   2) h+1 x (Fa Fb)   3) t x (Ib Wb Fb)
 *     4) n-q+h+1 x (Fa;Bb) (Fb;Ba)    where t = 0 the very first is no pair
 *     5) t x Bb (Fb;Ba)
 *     6) h+1 x Bb Ba, from the middle on I instead of B
 *     7) t x W Ia   8) h+1 x W
 *
 * W are taken from the oldest I of either stage.
 */
#include "sched/generator.h"

static const char *const aliases[] = {"dual-pipe", NULL};
static const char *const v_aliases[] = {"ScheduleDualPipeV", "dual-pipe-v", NULL};

enum { A, B };

/* An I whose W is still to come. */
typedef struct waiting {
    int which;
    int microbatch;
} waiting;

typedef struct cursor {
    pst_row *row;
    int stage[2];
    int h, t;
    int pairs;      /* of step 4                                              */
    int forward[2]; /* next microbatch                                        */
    int backward[2];
    waiting *queue; /* of W, oldest first                                     */
    int first;
    int count;
} cursor;

static void forward(cursor *c, int which, int paired)
{
    pst__row_append(c->row, PST_OP_FORWARD, c->stage[which], c->forward[which]++,
                    paired);
}

static void backward(cursor *c, int which, int split)
{
    const int microbatch = c->backward[which]++;
    pst__row_add(c->row, split ? PST_OP_BACKWARD_INPUT : PST_OP_BACKWARD,
                 c->stage[which], microbatch);
    if (split)
        c->queue[c->count++] = (waiting){which, microbatch};
}

static void backward_weight(cursor *c)
{
    const waiting w = c->queue[c->first++];
    pst__row_add(c->row, PST_OP_BACKWARD_WEIGHT, c->stage[w.which], w.microbatch);
}

/* Steps 1 to 5. */
static void climb(cursor *c)
{
    for (int i = 0; i < 2 * c->t; i++)
        forward(c, A, 0);
    for (int i = 0; i < c->h + 1; i++) {
        forward(c, A, 0);
        forward(c, B, 0);
    }
    for (int i = 0; i < c->t; i++) {
        backward(c, B, 1);
        backward_weight(c);
        forward(c, B, 0);
    }
    for (int i = 0; i < c->pairs; i++) {
        forward(c, A, i > 0 || c->t > 0);
        backward(c, B, 0);
        forward(c, B, 1);
        backward(c, A, 0);
    }
    for (int i = 0; i < c->t; i++) {
        backward(c, B, 0);
        forward(c, B, 1);
        backward(c, A, 0);
    }
}

/* Steps 6 to 8. */
static void descend(cursor *c)
{
    const int middle = (c->h + 1) / 2;
    for (int i = 0; i < c->h + 1; i++) {
        backward(c, B, i > middle || (i == middle && c->h % 2 == 1));
        backward(c, A, i >= middle);
    }
    for (int i = 0; i < c->t; i++) {
        backward_weight(c);
        backward(c, A, 1);
    }
    for (int i = 0; i < c->h + 1; i++)
        backward_weight(c);
}

static void fill_cursor(cursor *c)
{
    const pst_env *env = pst__schedule_builder_env(c->row->builder);
    const size_t most = (size_t)(2 * c->t + 2 * c->h + 2);
    c->queue = pst_allocate_array(env, most, sizeof *c->queue);
    if (c->queue == NULL) {
        c->row->status = pst_error_no_memory(c->row->err, "a schedule", 0);
        return;
    }
    climb(c);
    descend(c);
    pst_release(env, c->queue);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    const int p = shape->ranks, r = row->rank, mirror = p - 1 - r;
    const int h = pst__min(r, mirror);
    const int first = r, second = p + mirror;
    cursor c = {.row = row,
                .stage = {r < mirror ? first : second, r < mirror ? second : first},
                .h = h,
                .t = p / 2 - 1 - h,
                .pairs = shape->microbatches / 2 - p + h + 1};
    fill_cursor(&c);
}

static void fill_v(pst_row *row, const pst_shape *shape)
{
    const int p = shape->ranks, r = row->rank;
    cursor c = {.row = row,
                .stage = {r, 2 * p - 1 - r},
                .h = r,
                .t = p - 1 - r,
                .pairs = shape->microbatches - 2 * p + r + 1};
    fill_cursor(&c);
}

static pst_status refuse(const pst_shape *shape, pst_error *err)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (p % 2 != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "dualpipe: %d ranks; it needs an even number: use %d or %d, or "
            "dualpipev",
            p, p > 1 ? p - 1 : 2, p > 1 ? p + 1 : 4);
    if (m % 2 != 0 || m < 2 * p)
        return pst_error_set(err, PST_EINVAL,
                             "dualpipe: %d microbatches on %d ranks; it needs an even "
                             "number of at least 2p: use %d, or zb-v",
                             m, p, m < 2 * p ? 2 * p : m + 1);
    return PST_OK;
}

static pst_status refuse_v(const pst_shape *shape, pst_error *err)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (m >= 2 * p)
        return PST_OK;
    return pst_error_set(
        err, PST_EINVAL,
        "dualpipev: %d microbatches on %d ranks; it needs at least 2p: use "
        "%d, or zb-v",
        m, p, 2 * p);
}

/* `stages` PP in DeepSeek's formula, `work` of one rank; exact on equal costs.
 */
static int form(const pst_unit_costs *cost, int stages, double work,
                const char *formula, pst_closed_form *out)
{
    const double b = cost->backward_input + cost->backward_weight;
    if (cost->latency > 0 || cost->forward != cost->backward_input ||
        cost->forward != cost->backward_weight)
        return 0;
    *out = (pst_closed_form){
        .makespan = work + (stages / 2 - 1) *
                               (cost->forward + 2 * b - 3 * cost->backward_weight),
        .peak_first_rank = stages + 1,
        .peak_last_rank = stages + 1,
        .formula = formula};
    return 1;
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const double unit = cost->forward + cost->backward_input + cost->backward_weight;
    return form(cost, shape->ranks, shape->microbatches * unit,
                "m(F+I+W) + (p/2-1)(F+2I-W), F = I = W", out);
}

static int closed_form_v(const pst_shape *shape, const pst_unit_costs *cost,
                         pst_closed_form *out)
{
    const double unit = cost->forward + cost->backward_input + cost->backward_weight;
    return form(cost, 2 * shape->ranks, 2.0 * shape->microbatches * unit,
                "m(F+I+W) + (p-1)(F+2I-W)/2, F = I = W", out);
}

const pst_generator pst__dualpipe = {
    .kind = {.name = "dualpipe",
             .aliases = aliases,
             .summary =
                 "two replicas fed from both ends, forwards and backwards in pairs",
             .source = "deepseek-ai/DualPipe (dualpipe.py)",
             .needs = "p even, m even, m >= 2p; two replicas of the model",
             .costs = "idle (p/2-1)(F&B+B-3W); holds p+1 microbatches and twice "
                      "the weights"},
    .refuse = refuse,
    .fill = fill,
    .closed_form = closed_form,
    .chunks = 2,
    .replicas = 2,
};

const pst_generator pst__dualpipev = {
    .kind = {.name = "dualpipev",
             .aliases = v_aliases,
             .summary = "a V of two chunks a rank, forwards and backwards in pairs",
             .source = "deepseek-ai/DualPipe (dualpipev.py); PyTorch ScheduleDualPipeV",
             .needs = "m >= 2p; 2 chunks a rank",
             .costs = "idle (p-1)(F&B+B-3W)/2; holds p+1/2 microbatches"},
    .refuse = refuse_v,
    .fill = fill_v,
    .closed_form = closed_form_v,
    .chunks = 2,
};
