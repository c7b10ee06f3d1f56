/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_zb_v.c - ZB-V: two chunks a rank laid out as a V, made by hand.
 *
 * Source: Qi et al. 2024, get_zb_v_schedule; PyTorch ScheduleZBVZeroBubble.
 *
 * Rule: rank r holds stages r (chunk a) and 2p-1-r (chunk b), so the last rank
 * hands over to itself and rank 0 holds both ends. A row is made of runs:
 *
 *     2(p-r)-1 x Fa;  r x (Fb Fa);  p-r x (Fb Ib Wb);
 *     while a forward is left: Fa if one is left, Ia Wa, Fb Ib Wb;
 *     r x (Ia Ib);  p-r x (Ia Wa);  all Wb that are left;  all Wa that are left
 *
 * It is made for at least 2p-1 microbatches, and those beyond m are then left
 * out. All ranks hold p microbatches (2p half-size ones), and with F = I = W
 * none waits between its first and its last action.
 */
#include "sched/generator.h"

static const char *const aliases[] = {"zbv", "ScheduleZBVZeroBubble", "ZBVZeroBubble",
                                      NULL};

/* The next microbatch of each operation on each chunk. */
typedef struct cursor {
    pst_row *row;
    int stage[2];
    int next[PST_OP_COUNT][2];
} cursor;

static void add(cursor *c, int op, int chunk)
{
    pst__row_add(c->row, op, c->stage[chunk], c->next[op][chunk]++);
}

enum { A, B };

static void warm_up(cursor *c, int p)
{
    const int r = c->row->rank;
    for (int i = 0; i < 2 * (p - r) - 1; i++)
        add(c, PST_OP_FORWARD, A);
    for (int i = 0; i < r; i++) {
        add(c, PST_OP_FORWARD, B);
        add(c, PST_OP_FORWARD, A);
    }
    for (int i = 0; i < p - r; i++) {
        add(c, PST_OP_FORWARD, B);
        add(c, PST_OP_BACKWARD_INPUT, B);
        add(c, PST_OP_BACKWARD_WEIGHT, B);
    }
}

static void steady(cursor *c, int m)
{
    const int(*next)[2] = c->next;
    while (next[PST_OP_FORWARD][A] < m || next[PST_OP_FORWARD][B] < m) {
        if (next[PST_OP_FORWARD][A] < m)
            add(c, PST_OP_FORWARD, A);
        add(c, PST_OP_BACKWARD_INPUT, A);
        add(c, PST_OP_BACKWARD_WEIGHT, A);
        add(c, PST_OP_FORWARD, B);
        add(c, PST_OP_BACKWARD_INPUT, B);
        add(c, PST_OP_BACKWARD_WEIGHT, B);
    }
}

static void cool_down(cursor *c, int p, int m)
{
    const int r = c->row->rank;
    for (int i = 0; i < r; i++) {
        add(c, PST_OP_BACKWARD_INPUT, A);
        add(c, PST_OP_BACKWARD_INPUT, B);
    }
    for (int i = 0; i < p - r; i++) {
        add(c, PST_OP_BACKWARD_INPUT, A);
        add(c, PST_OP_BACKWARD_WEIGHT, A);
    }
    while (c->next[PST_OP_BACKWARD_WEIGHT][B] < m)
        add(c, PST_OP_BACKWARD_WEIGHT, B);
    while (c->next[PST_OP_BACKWARD_WEIGHT][A] < m)
        add(c, PST_OP_BACKWARD_WEIGHT, A);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    const int p = shape->ranks;
    const int m = shape->microbatches > 2 * p - 1 ? shape->microbatches : 2 * p - 1;
    cursor c = {.row = row, .stage = {row->rank, 2 * p - 1 - row->rank}};
    warm_up(&c, p);
    steady(&c, m);
    cool_down(&c, p, m);
}

static int closed_form(const pst_shape *shape, const pst_unit_costs *cost,
                       pst_closed_form *out)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (cost->latency > 0 || m < 2 * p - 1 || cost->forward != cost->backward_input ||
        cost->forward != cost->backward_weight)
        return 0;
    *out = (pst_closed_form){.makespan = (6.0 * m + p - 1) * cost->forward,
                             .peak_first_rank = 2 * p,
                             .peak_last_rank = 2 * p,
                             .formula = "m(F+I+W) + (p-1)F/2, F = I = W"};
    return 1;
}

const pst_generator pst__zb_v = {
    .kind = {.name = "zb-v",
             .aliases = aliases,
             .summary = "zero bubble on two chunks a rank, laid out as a V",
             .source = "Qi et al. 2024 (get_zb_v_schedule); PyTorch "
                       "ScheduleZBVZeroBubble",
             .needs = "any p and m; 2 chunks a rank; at its best for m >= 2p-1",
             .costs =
                 "idle (p-1)/2 of F = I = W, none between a rank's first start and "
                 "last end; holds p microbatches"},
    .fill = fill,
    .closed_form = closed_form,
    .chunks = 2,
    .chunks_most = 2,
};
