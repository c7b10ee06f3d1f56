/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_eager_one_f_one_b.c - 1F1B with a warm-up about twice as deep, to hide
 * messages.
 *
 * Source: Zhuang et al. 2023 (eager-1F1B); Megatron-LM's overlap of
 * expert-parallel messages, whose forward and backward done together belong to
 * different microbatches.
 *
 * Rule: rank r holds stage r. Warm-up: w = min(2(p-1-r) + extra, m) forwards.
 * Then m - w times a forward and a backward, then w backwards. With pairs, the
 * forward and the backward of the steady state overlap; one forward more (extra
 * 1) makes the two belong to independent microbatches. p = 2, m = 4:
 *
 *     0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3
 *     1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
 */
#include "sched/generator.h"

static const char *const aliases[] = {"eager", "1f1b-overlap", "1f1boverlap", NULL};

static int warm_up_of(const pst_shape *shape, int rank)
{
    return pst__min(2 * (shape->ranks - 1 - rank) + shape->warmup_extra,
                    shape->microbatches);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    const int r = row->rank, m = shape->microbatches, warm_up = warm_up_of(shape, r);
    for (int i = 0; i < warm_up; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < m; i++) {
        pst__row_append(row, PST_OP_FORWARD, r, i + warm_up, shape->pairs);
        pst__row_add(row, PST_OP_BACKWARD, r, i);
    }
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (cost->latency > 0 || shape->pairs)
        return 0;
    *out = (pst_closed_form){
        .makespan = ((double)m + p - 1) *
                    (cost->forward + cost->backward_input + cost->backward_weight),
        .peak_first_rank = pst__min(warm_up_of(shape, 0) + 1, m),
        .peak_last_rank = pst__min(warm_up_of(shape, p - 1) + 1, m),
        .formula = "(m+p-1)(F+I+W)"};
    return 1;
}

const pst_generator pst__eager_one_f_one_b = {
    .kind = {.name = "eager-1f1b",
             .aliases = aliases,
             .summary = "1F1B with twice the warm-up, which hides the time of messages",
             .source =
                 "Zhuang et al. 2023; Megatron-LM overlap_moe_expert_parallel_comm",
             .needs = "any p and m; one stage a rank",
             .costs =
                 "idle (p-1)(F+I+W); rank r holds min(2(p-1-r)+1, m) microbatches"},
    .fill = fill,
    .closed_form = closed_form,
    .options = PST_SHAPE_WARMUP_EXTRA | PST_SHAPE_PAIRS,
};
