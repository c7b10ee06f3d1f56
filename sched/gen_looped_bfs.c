/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_looped_bfs.c - breadth first: each chunk runs all its microbatches at
 * once.
 *
 * Source: Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism"; PyTorch
 * ScheduleLoopedBFS.
 *
 * Rule: chunk j of rank r is stage j p + r. All forwards of chunk 0, of chunk
 * 1, ...; then all backwards of the last chunk, ..., of chunk 0, microbatches
 * descending unless told otherwise. p = 2, v = 2, m = 2:
 *
 *     0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0
 *     1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0
 */
#include "sched/generator.h"

static const char *const aliases[] = {"bfs", "breadth-first", "ScheduleLoopedBFS",
                                      "LoopedBFS", NULL};

static void fill(pst_row *row, const pst_shape *shape)
{
    const int p = shape->ranks, m = shape->microbatches, v = shape->chunks;
    const int ascending = shape->backward_order == PST_ORDER_ASCENDING;
    for (int chunk = 0; chunk < v; chunk++)
        for (int i = 0; i < m; i++)
            pst__row_add(row, PST_OP_FORWARD, chunk * p + row->rank, i);
    for (int chunk = v - 1; chunk >= 0; chunk--)
        for (int i = 0; i < m; i++)
            pst__row_add(row, PST_OP_BACKWARD, chunk * p + row->rank,
                         ascending ? i : m - 1 - i);
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches, v = shape->chunks;
    const int turns = m >= p ? m * v : (v - 1) * p + m;
    if (cost->latency > 0)
        return 0;
    *out = (pst_closed_form){
        .makespan = ((double)turns + p - 1) *
                    (cost->forward + cost->backward_input + cost->backward_weight),
        .peak_first_rank = m * v,
        .peak_last_rank = m * v,
        .formula = "(max(m, p)(v-1)+m+p-1)(F+I+W)/v"};
    return 1;
}

const pst_generator pst__looped_bfs = {
    .kind = {.name = "looped-bfs",
             .aliases = aliases,
             .summary = "chunk after chunk, all microbatches of each at once",
             .source = "Lamy-Poirier 2022; PyTorch ScheduleLoopedBFS",
             .needs = "any p, m and v",
             .costs = "idle (p-1)(F+I+W)/v for m >= p; holds m microbatches"},
    .fill = fill,
    .closed_form = closed_form,
    .options = PST_SHAPE_BACKWARD_ORDER,
    .chunks = 2,
    .chunks_most = PST__ANY_CHUNKS,
};
