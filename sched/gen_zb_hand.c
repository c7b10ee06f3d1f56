/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_zb_hand.c - the zero-bubble schedules made by hand: ZB-H1 and ZB-H2.
 *
 * Source: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", and its authors'
 * program (get_hand_schedule); PyTorch ScheduleInterleavedZeroBubble with one
 * stage a rank.
 *
 * Rule, depth d = 1 for H1 and 2 for H2: rank r holds stage r. Warm-up:
 * d(p-1-r) forwards. Then for i = 0 .. m-1 a forward if one is left, I of i,
 * and W of i - d r where that is one; then the last d r W. ZB-H1, p = 2, m = 3:
 *
 *     0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2
 *     1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
 *
 * H1 can take the newest W instead of the oldest, as the authors' light runtime
 * does, and make it one with the I before it while forwards are left (on rank 0
 * always).
 */
#include "sched/generator.h"

static const char *const h1_aliases[] = {"zbh1", NULL};
static const char *const h2_aliases[] = {"zbh2", NULL};

static void fill_oldest_first(pst_row *row, const pst_shape *shape, int depth)
{
    const int r = row->rank, p = shape->ranks, m = shape->microbatches;
    const int warm_up = pst__min(depth * (p - 1 - r), m);
    const int late = pst__min(depth * r, m);
    for (int i = 0; i < warm_up; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < m; i++) {
        pst__row_add(row, PST_OP_FORWARD, r, i + warm_up);
        pst__row_add(row, PST_OP_BACKWARD_INPUT, r, i);
        if (i >= late)
            pst__row_add(row, PST_OP_BACKWARD_WEIGHT, r, i - late);
    }
    for (int i = m - late; i < m; i++)
        pst__row_add(row, PST_OP_BACKWARD_WEIGHT, r, i);
}

static void fill_newest_first(pst_row *row, const pst_shape *shape)
{
    const int r = row->rank, p = shape->ranks, m = shape->microbatches;
    const int warm_up = pst__min(p - 1 - r, m), late = pst__min(r, m);
    for (int i = 0; i < warm_up; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < m; i++) {
        const int forwards_left = i + warm_up + 1 < m;
        pst__row_add(row, PST_OP_FORWARD, r, i + warm_up);
        if (i >= late && (forwards_left || r == 0)) {
            pst__row_add(row, PST_OP_BACKWARD, r, i);
            continue;
        }
        pst__row_add(row, PST_OP_BACKWARD_INPUT, r, i);
        if (i >= late)
            pst__row_add(row, PST_OP_BACKWARD_WEIGHT, r, i);
    }
    for (int i = late - 1; i >= 0; i--)
        pst__row_add(row, PST_OP_BACKWARD_WEIGHT, r, i);
}

static void fill_h1(pst_row *row, const pst_shape *shape)
{
    if (shape->weights == PST_WEIGHTS_LIFO_MERGED)
        fill_newest_first(row, shape);
    else
        fill_oldest_first(row, shape, 1);
}

static void fill_h2(pst_row *row, const pst_shape *shape)
{
    fill_oldest_first(row, shape, 2);
}

/* F = I = W = 1 a stage. */
static int is_uniform(const pst_unit_costs *cost)
{
    return cost->latency == 0 && cost->forward == cost->backward_input &&
           cost->forward == cost->backward_weight;
}

static int h1_closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                          pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (!is_uniform(cost) || m < p || shape->weights == PST_WEIGHTS_LIFO_MERGED)
        return 0;
    *out =
        (pst_closed_form){.makespan = 3.0 * m * cost->forward + (p - 1) * cost->forward,
                          .peak_first_rank = p,
                          .peak_last_rank = p,
                          .formula = "m(F+I+W) + (p-1)(F+I-W), F = I = W"};
    return 1;
}

static int h2_closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                          pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (!is_uniform(cost) || m < 2 * p)
        return 0;
    *out =
        (pst_closed_form){.makespan = 3.0 * m * cost->forward + (p - 1) * cost->forward,
                          .peak_first_rank = 2 * p - 1,
                          .peak_last_rank = 2 * p - 1,
                          .formula = "m(F+I+W) + (p-1)F, F = I = W"};
    return 1;
}

const pst_generator pst__zb_h1 = {
    .kind = {.name = "zb-h1",
             .aliases = h1_aliases,
             .summary = "zero bubble by hand, in the memory of 1F1B",
             .source = "Qi et al. 2024 (zero bubble), get_hand_schedule",
             .needs = "any p and m; one stage a rank",
             .costs = "idle (p-1)(F+I-W); holds p microbatches"},
    .fill = fill_h1,
    .closed_form = h1_closed_form,
    .options = PST_SHAPE_WEIGHTS,
};

const pst_generator pst__zb_h2 = {
    .kind = {.name = "zb-h2",
             .aliases = h2_aliases,
             .summary = "zero bubble by hand, in twice the memory of 1F1B",
             .source = "Qi et al. 2024 (zero bubble), get_hand_schedule",
             .needs = "any p and m; one stage a rank; at its best for m >= 2p",
             .costs = "idle (p-1)(F+I-2W) between a rank's first start and last end; "
                      "holds 2p-1 microbatches"},
    .fill = fill_h2,
    .closed_form = h2_closed_form,
};
