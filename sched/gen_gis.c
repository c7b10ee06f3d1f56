/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_gis.c - grouped interleave: interleaved chunks in small groups, to hold
 * less.
 *
 * Source: Wan et al. 2025, "PipeOffload", and its authors' program
 * (group_interleaved_1f1b).
 *
 * Rule: chunk j of rank r is stage j p + r; microbatches go in groups of g
 * (looped.h), ceil(p/2) to p. Warm-up: (v-1) g + p-r forwards; then I and W of
 * one turn and a forward in turn, backwards in the order of gen_interleaved.c.
 * The last group is filled up and what is beyond m left out. p = 2, v = 2, g =
 * 1, m = 2:
 *
 *     0F0 2F0 0F1 2I0 2W0 2F1 0I0 0W0 2I1 2W1 0I1 0W1
 *     1F0 3F0 3I0 3W0 1F1 1I0 1W0 3F1 3I1 3W1 1I1 1W1
 */
#include "sched/generator.h"
#include "sched/looped.h"

static const char *const aliases[] = {"grouped-interleave", "group-interleaved", NULL};

static pst_status refuse(const pst_shape *shape, pst_error *err)
{
    const int p = shape->ranks, least = (p + 1) / 2;
    if (shape->group == 0 || (shape->group >= least && shape->group <= p) ||
        (shape->chunks == 1 && shape->group >= 1))
        return PST_OK;
    return pst_error_set(
        err, PST_EINVAL,
        "gis: groups of %d on %d ranks; a group has half of p, rounded up, "
        "to p microbatches: use %d to %d",
        shape->group, p, least, p);
}

static void add_turn(pst_row *row, const pst_shape *filled, int op, int k)
{
    const pst_turn turn = pst__looped_turn(filled, filled->group, k);
    pst__row_add(row, op,
                 pst__looped_stage(filled, row->rank, turn, op != PST_OP_FORWARD),
                 turn.microbatch);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    pst_shape filled = *shape;
    if (filled.group == 0)
        filled.group = shape->ranks;
    filled.microbatches =
        (shape->microbatches + filled.group - 1) / filled.group * filled.group;
    const int total = filled.microbatches * filled.chunks;
    const int warm_up =
        pst__min((filled.chunks - 1) * filled.group + shape->ranks - row->rank, total);
    for (int k = 0; k < warm_up; k++)
        add_turn(row, &filled, PST_OP_FORWARD, k);
    for (int k = 0; k < total; k++) {
        add_turn(row, &filled, PST_OP_BACKWARD_INPUT, k);
        add_turn(row, &filled, PST_OP_BACKWARD_WEIGHT, k);
        if (k + warm_up < total)
            add_turn(row, &filled, PST_OP_FORWARD, k + warm_up);
    }
}

const pst_generator pst__gis = {
    .kind = {.name = "gis",
             .aliases = aliases,
             .summary = "interleaved chunks in small groups, which hold less",
             .source = "Wan et al. 2025 (PipeOffload), group_interleaved_1f1b",
             .needs = "any p, m and v; groups of half of p to p",
             .costs = "rank r holds ((v-1)g+p-r)/v microbatches"},
    .refuse = refuse,
    .fill = fill,
    .options = PST_SHAPE_GROUP,
    .chunks = 2,
    .chunks_most = PST__ANY_CHUNKS,
};
