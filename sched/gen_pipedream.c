/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_pipedream.c - PipeDream and PipeDream-2BW: 1F1B without a flush between steps.
 *
 * Source: Narayanan et al. 2019, "PipeDream" (weight stashing); Narayanan et al. 2021,
 * "Memory-Efficient Pipeline-Parallel DNN Training" (2BW); the branches `pipedream` and
 * `pipedream_2bw` of their program.
 *
 * Rule: rank r holds stage r and runs as in 1F1B. pipedream: a batch is one microbatch
 * and each backward is followed by its STEP; a forward uses the newest weights, its
 * backward the same. So the gradient of rank r is up to p-1-r updates old. p = 2, m =
 * 3:
 *
 *     0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2
 *     1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2
 *
 * pipedream-2bw: a batch is a group of N microbatches (p of them unless told
 * otherwise), the last one what is left; batch t uses what t - 1 updates made.
 *
 * Differences from the source: it wants N >= p. A smaller N works here with a warm-up
 * of at most N forwards, which is what two versions allow.
 */
#include "sched/generator.h"

static const char *const stash_aliases[] = {"pipedream-stash", "weight-stashing", NULL};
static const char *const double_aliases[] = {"2bw", NULL};

static void fill_batches(pst_row *row, const pst_shape *shape, int batch, int warm_up)
{
    const int r = row->rank, m = shape->microbatches;
    warm_up = pst__min(warm_up, m);
    for (int i = 0; i < warm_up; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < m; i++) {
        pst__row_add(row, PST_OP_FORWARD, r, i + warm_up);
        pst__row_add(row, PST_OP_BACKWARD, r, i);
        if ((i + 1) % batch == 0 || i + 1 == m)
            pst__row_add(row, PST_OP_STEP, r, i);
    }
}

static void fill_stash(pst_row *row, const pst_shape *shape)
{
    fill_batches(row, shape, 1, shape->ranks - 1 - row->rank);
}

static void fill_double(pst_row *row, const pst_shape *shape)
{
    const int batch = shape->group > 0 ? shape->group : shape->ranks;
    fill_batches(row, shape, batch, pst__min(shape->ranks - 1 - row->rank, batch));
}

static void set_form(const pst_shape *shape, const pst_unit_costs *cost,
                     pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches;
    *out = (pst_closed_form){
        .makespan = ((double)m + p - 1) *
                    (cost->forward + cost->backward_input + cost->backward_weight),
        .peak_first_rank = pst__min(p, m),
        .peak_last_rank = 1,
        .formula = "(m+p-1)(F+I+W), of which p-1 only once"};
}

static int stash_form(const pst_shape *shape, const pst_unit_costs *cost,
                      pst_closed_form *out)
{
    set_form(shape, cost, out);
    return cost->latency == 0;
}

/* With batches of p or more the warm-up is 1F1B's. */
static int double_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    set_form(shape, cost, out);
    return cost->latency == 0 &&
           (shape->group == 0 || shape->group >= shape->ranks - 1);
}

const pst_generator pst__pipedream = {
    .kind = {.name = "pipedream",
             .aliases = stash_aliases,
             .summary =
                 "1F1B with an update after each microbatch; weights are stashed",
             .source = "Narayanan et al. 2019 (PipeDream)",
             .needs = "any p and m; one stage a rank; asynchronous",
             .costs =
                 "idle (p-1)(F+I+W) once; rank r keeps p-r versions of its weights "
                 "and holds p-r; gradients up to p-1-r updates old"},
    .fill = fill_stash,
    .closed_form = stash_form,
    .weight_policy = PST_VERSIONS_STASH,
};

const pst_generator pst__pipedream_2bw = {
    .kind = {.name = "pipedream-2bw",
             .aliases = double_aliases,
             .summary = "1F1B with an update after each group, two versions of weights",
             .source = "Narayanan et al. 2021 (PipeDream-2BW)",
             .needs = "any p, m and group; one stage a rank; asynchronous",
             .costs = "idle (p-1)(F+I+W) once; 2 versions of the weights; rank r holds "
                      "p-r; gradients one update old"},
    .fill = fill_double,
    .closed_form = double_form,
    .options = PST_SHAPE_GROUP,
    .weight_policy = PST_VERSIONS_DOUBLE,
};
