/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_one_f_one_b.c - 1F1B: one forward, one backward, and few microbatches in flight.
 *
 * Source: Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training"
 * (PipeDream-Flush); Fan et al. 2021 (DAPPLE); Megatron-LM
 * forward_backward_pipelining_without_interleaving; PyTorch Schedule1F1B.
 *
 * Rule: rank r holds stage r. Warm-up: w = min(p-1-r, m) forwards. Steady state:
 * m - w times a forward and a backward. Cool-down: w backwards. p = 2, m = 3:
 *
 *     0F0 0F1 0B0 0F2 0B1 0B2
 *     1F0 1B0 1F1 1B1 1F2 1B2
 *
 * Differences from the source: m < p works (PyTorch and ColossalAI refuse it): the
 * warm-up is then all forwards.
 */
#include "sched/generator.h"

static const char *const aliases[] = {
    "one-f-one-b",
    "pipedream-flush",
    "dapple",
    "Schedule1F1B",
    "TrainSchedule",
    "forward_backward_pipelining_without_interleaving",
    NULL};

static void fill(pst_row *row, const pst_shape *shape)
{
    const int r = row->rank, p = shape->ranks, m = shape->microbatches;
    const int warm_up = pst__min(p - 1 - r, m);
    for (int i = 0; i < warm_up; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < m; i++) {
        pst__row_add(row, PST_OP_FORWARD, r, i + warm_up);
        pst__row_add(row, PST_OP_BACKWARD, r, i);
    }
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const double work = cost->forward + cost->backward_input + cost->backward_weight;
    int p = shape->ranks, m = shape->microbatches;
    /* With latency the form holds for these m only. */
    if (cost->latency > 0 && m % p != 0 && m % p != 1)
        return 0;
    const double slots = (double)m + p - 1;
    const double hops = p > 1 ? 2 * (slots - 1 - m / p) : 0;
    *out = (pst_closed_form){.makespan = slots * work + cost->latency * hops,
                             .peak_first_rank = pst__min(p, m),
                             .peak_last_rank = 1,
                             .formula = "(m+p-1)(F+I+W) + 2c(m+p-2-floor(m/p))"};
    return 1;
}

const pst_generator pst__one_f_one_b = {
    .kind = {.name = "1f1b",
             .aliases = aliases,
             .summary = "a short warm-up, then one forward and one backward in turn",
             .source = "Narayanan et al. 2021 (PipeDream-Flush); Megatron-LM; PyTorch "
                       "Schedule1F1B",
             .needs = "any p and m; one stage a rank",
             .costs = "idle (p-1)(F+I+W); rank r holds min(p-r, m) microbatches"},
    .fill = fill,
    .closed_form = closed_form,
};
