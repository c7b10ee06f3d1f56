/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_interleaved.c - interleaved 1F1B: each rank holds several chunks of the
 * model.
 *
 * Source: Narayanan et al. 2021, "Efficient Large-Scale Language Model
 * Training"; Megatron-LM get_schedule_table and get_pp_rank_microbatches;
 * PyTorch ScheduleInterleaved1F1B.
 *
 * Rule: chunk j of rank r is stage j p + r, and microbatches go in groups of N
 * (looped.h). Warm-up: w = min(2(p-1-r) + (v-1) N + extra, m v) forwards. Then
 * m v - w times a forward and a backward, then w backwards; backward k takes
 * the chunk that mirrors forward k's. p = 2, v = 2, m = 2:
 *
 *     0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1
 *     1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
 *
 * Differences from the sources: every m works. Megatron and PyTorch refuse
 * those that do not fit their groups; here the default group is one that fits.
 */
#include "sched/generator.h"
#include "sched/looped.h"

static const char *const aliases[] = {"interleaved-1f1b",
                                      "ScheduleInterleaved1F1B",
                                      "Interleaved1F1B",
                                      "vpp",
                                      "virtual-pipeline",
                                      "forward_backward_pipelining_with_interleaving",
                                      NULL};

static pst_status refuse(const pst_shape *shape, pst_error *err)
{
    return pst__looped_refuse("interleaved", shape, err);
}

static int warm_up_of(const pst_shape *shape, int rank)
{
    const int group = pst__looped_group(shape);
    return pst__min(2 * (shape->ranks - 1 - rank) + (shape->chunks - 1) * group +
                        shape->warmup_extra,
                    shape->microbatches * shape->chunks);
}

static void add_turn(pst_row *row, const pst_shape *shape, int op, int k, int paired)
{
    const pst_turn turn = pst__looped_turn(shape, pst__looped_group(shape), k);
    const int stage = pst__looped_stage(shape, row->rank, turn, op != PST_OP_FORWARD);
    pst__row_append(row, op, stage, turn.microbatch, paired);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    const int total = shape->microbatches * shape->chunks;
    const int warm_up = warm_up_of(shape, row->rank);
    for (int k = 0; k < warm_up; k++)
        add_turn(row, shape, PST_OP_FORWARD, k, 0);
    for (int k = 0; k < total; k++) {
        if (k + warm_up < total)
            add_turn(row, shape, PST_OP_FORWARD, k + warm_up, shape->pairs);
        add_turn(row, shape, PST_OP_BACKWARD, k, 0);
    }
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches, total = m * shape->chunks;
    if (cost->latency > 0 || shape->pairs || (m < p && shape->chunks > 1))
        return 0;
    *out = (pst_closed_form){
        .makespan = ((double)total + p - 1) *
                    (cost->forward + cost->backward_input + cost->backward_weight),
        .peak_first_rank = pst__min(warm_up_of(shape, 0) + 1, total),
        .peak_last_rank = pst__min(warm_up_of(shape, p - 1) + 1, total),
        .formula = "(m v+p-1)(F+I+W)/v"};
    return 1;
}

const pst_generator pst__interleaved = {
    .kind = {.name = "interleaved",
             .aliases = aliases,
             .summary = "1F1B over several chunks a rank, which divides the idle time",
             .source = "Narayanan et al. 2021; Megatron-LM; PyTorch "
                       "ScheduleInterleaved1F1B",
             .needs = "any p, m and v",
             .costs = "idle (p-1)(F+I+W)/v; rank r holds ((v-1)N+2(p-1-r)+1)/v "
                      "microbatches, N about p"},
    .refuse = refuse,
    .fill = fill,
    .closed_form = closed_form,
    .options = PST_SHAPE_GROUP | PST_SHAPE_WARMUP_EXTRA | PST_SHAPE_PAIRS,
    .chunks = 2,
    .chunks_most = PST__ANY_CHUNKS,
};
