/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_gpipe.c - GPipe: all forwards, then all backwards.
 *
 * Source: Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using
 * Pipeline Parallelism"; PyTorch ScheduleGPipe; torchgpipe.
 *
 * Rule: rank r holds stage r and runs F of every microbatch in order, then B of every
 * microbatch. p = 2, m = 3:
 *
 *     0F0 0F1 0F2 0B0 0B1 0B2
 *     1F0 1F1 1F2 1B0 1B1 1B2
 *
 * Differences from the source: backwards ascend, as in PyTorch; --backward-order
 * descending gives torchgpipe's order (autograd's reverse). The makespan is the same.
 */
#include "sched/generator.h"

static const char *const aliases[] = {"fill-drain", "f-then-b", "afab", "ScheduleGPipe",
                                      NULL};

static void fill(pst_row *row, const pst_shape *shape)
{
    const int r = row->rank, m = shape->microbatches;
    const int descending = shape->backward_order == PST_ORDER_DESCENDING;
    for (int i = 0; i < m; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < m; i++)
        pst__row_add(row, PST_OP_BACKWARD, r, descending ? m - 1 - i : i);
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const double work = cost->forward + cost->backward_input + cost->backward_weight;
    int p = shape->ranks, m = shape->microbatches;
    *out = (pst_closed_form){.makespan = ((double)m + p - 1) * work +
                                         2 * cost->latency * (p - 1),
                             .peak_first_rank = m,
                             .peak_last_rank = m,
                             .formula = "(m+p-1)(F+I+W) + 2c(p-1)"};
    return 1;
}

const pst_generator pst__gpipe = {
    .kind = {.name = "gpipe",
             .aliases = aliases,
             .summary = "all forwards, then all backwards",
             .source = "Huang et al. 2019 (GPipe); PyTorch ScheduleGPipe",
             .needs = "any p and m; one stage a rank",
             .costs = "idle (p-1)(F+I+W); holds m microbatches"},
    .fill = fill,
    .options = PST_SHAPE_BACKWARD_ORDER,
    .closed_form = closed_form,
};
