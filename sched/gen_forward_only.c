/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_forward_only.c - forwards alone, as in evaluation and inference.
 *
 * Source: DeepSpeed InferenceSchedule.
 *
 * Rule: chunk j of rank r is stage j p + r; chunk after chunk, all microbatches
 * of each.
 */
#include "sched/generator.h"

static const char *const aliases[] = {"inference", "InferenceSchedule", NULL};

static void fill(pst_row *row, const pst_shape *shape)
{
    for (int chunk = 0; chunk < shape->chunks; chunk++)
        for (int i = 0; i < shape->microbatches; i++)
            pst__row_add(row, PST_OP_FORWARD, chunk * shape->ranks + row->rank, i);
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches, v = shape->chunks;
    const int turns = m >= p ? m * v : (v - 1) * p + m;
    if (cost->latency > 0)
        return 0;
    *out = (pst_closed_form){.makespan = ((double)turns + p - 1) * cost->forward,
                             .peak_first_rank = m * v,
                             .peak_last_rank = m * v,
                             .formula = "(max(m, p)(v-1)+m+p-1)F/v"};
    return 1;
}

const pst_generator pst__forward_only = {
    .kind = {.name = "forward-only",
             .aliases = aliases,
             .summary = "forwards alone, as in evaluation",
             .source = "DeepSpeed InferenceSchedule",
             .needs = "any p, m and v; it trains nothing",
             .costs = "idle (p-1)F/v for m >= p"},
    .fill = fill,
    .closed_form = closed_form,
    .chunks_most = PST__ANY_CHUNKS,
};
