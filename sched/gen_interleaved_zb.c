/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_interleaved_zb.c - interleaved chunks with the backward split in two.
 *
 * Source: PyTorch ScheduleInterleavedZeroBubble, after Qi et al. 2024.
 *
 * Rule: chunks and groups as in gen_interleaved.c. Warm-up: w = min((v-1) N +
 * p-1-r, m v) forwards. Then for k = 0 .. m v - 1 a forward if one is left, I
 * of turn k, and W of turn k - r where that is one; then the last r W. p = 2, v
 * = 2, m = 2:
 *
 *     0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1
 *     1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1
 */
#include "sched/generator.h"
#include "sched/looped.h"

static const char *const aliases[] = {"ScheduleInterleavedZeroBubble",
                                      "InterleavedZeroBubble", "zb-interleaved", NULL};

static pst_status refuse(const pst_shape *shape, pst_error *err)
{
    return pst__looped_refuse("interleaved-zb", shape, err);
}

static void add_turn(pst_row *row, const pst_shape *shape, int op, int k)
{
    const pst_turn turn = pst__looped_turn(shape, pst__looped_group(shape), k);
    pst__row_add(row, op,
                 pst__looped_stage(shape, row->rank, turn, op != PST_OP_FORWARD),
                 turn.microbatch);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    const int total = shape->microbatches * shape->chunks;
    const int group = pst__looped_group(shape);
    const int warm_up =
        pst__min((shape->chunks - 1) * group + shape->ranks - 1 - row->rank, total);
    const int late = pst__min(row->rank, total);
    for (int k = 0; k < warm_up; k++)
        add_turn(row, shape, PST_OP_FORWARD, k);
    for (int k = 0; k < total; k++) {
        if (k + warm_up < total)
            add_turn(row, shape, PST_OP_FORWARD, k + warm_up);
        add_turn(row, shape, PST_OP_BACKWARD_INPUT, k);
        if (k >= late)
            add_turn(row, shape, PST_OP_BACKWARD_WEIGHT, k - late);
    }
    for (int k = total - late; k < total; k++)
        add_turn(row, shape, PST_OP_BACKWARD_WEIGHT, k);
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches, v = shape->chunks;
    if (cost->latency > 0 || m % p != 0 || cost->forward != cost->backward_input ||
        cost->forward != cost->backward_weight)
        return 0;
    *out = (pst_closed_form){.makespan = (3.0 * m * v + p - 1) * cost->forward,
                             .peak_first_rank = v * p,
                             .peak_last_rank = v * p,
                             .formula = "m(F+I+W) + (p-1)F/v, F = I = W"};
    return 1;
}

const pst_generator pst__interleaved_zb = {
    .kind = {.name = "interleaved-zb",
             .aliases = aliases,
             .summary = "interleaved chunks with the backward split in two",
             .source = "PyTorch ScheduleInterleavedZeroBubble",
             .needs = "any p, m and v",
             .costs = "idle (p-1)/v of F = I = W; holds p microbatches"},
    .refuse = refuse,
    .fill = fill,
    .closed_form = closed_form,
    .options = PST_SHAPE_GROUP,
    .chunks = 2,
    .chunks_most = PST__ANY_CHUNKS,
};
