/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_seq_one_f_one_b.c - 1F1B over slices of sequences.
 *
 * Source: Sun et al. 2024, "Seq1F1B", and its authors' program; before it Li et
 * al. 2021 (TeraPipe).
 *
 * Rule: a unit is slice s of microbatch i, written as microbatch i k + s. Rank
 * r holds stage r. Forwards go in order of units; backwards in order of
 * microbatches, and within one from its last slice to its first, since
 * attention looks back. Warm-up: w = min(p-2-r+k, m k) forwards; then as in
 * 1F1B. p = 2, m = 2, k = 2:
 *
 *     0F0 0F1 0F2 0B1 0F3 0B0 0B3 0B2
 *     1F0 1F1 1B1 1F2 1B0 1F3 1B3 1B2
 */
#include "sched/generator.h"

static const char *const aliases[] = {"seq-1f1b", "sequence-1f1b", NULL};

static void fill(pst_row *row, const pst_shape *shape)
{
    const int r = row->rank, k = shape->slices, units = shape->microbatches * k;
    const int warm_up = pst__min(shape->ranks - 2 - r + k, units);
    for (int i = 0; i < warm_up; i++)
        pst__row_add(row, PST_OP_FORWARD, r, i);
    for (int i = 0; i < units; i++) {
        pst__row_add(row, PST_OP_FORWARD, r, i + warm_up);
        pst__row_add(row, PST_OP_BACKWARD, r, i / k * k + k - 1 - i % k);
    }
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, k = shape->slices, units = shape->microbatches * k;
    if (cost->latency > 0)
        return 0;
    *out = (pst_closed_form){
        .makespan = ((double)units + p - 1) *
                    (cost->forward + cost->backward_input + cost->backward_weight),
        .peak_first_rank = pst__min(p - 1 + k, units),
        .peak_last_rank = pst__min(k, units),
        .formula = "(m k+p-1)(F+I+W)/k"};
    return 1;
}

const pst_generator pst__seq_one_f_one_b = {
    .kind = {.name = "seq1f1b",
             .aliases = aliases,
             .summary = "1F1B over slices of sequences",
             .source = "Sun et al. 2024 (Seq1F1B)",
             .needs = "any p, m and number of slices; one stage a rank",
             .costs = "idle (p-1)(F+I+W)/k; rank r holds (p-1-r)/k+1 microbatches"},
    .fill = fill,
    .closed_form = closed_form,
    .options = PST_SHAPE_SLICES,
};
