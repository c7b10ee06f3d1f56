/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_chimera.c - Chimera: two replicas of the model, fed from both ends.
 *
 * Source: Li and Hoefler 2021; Shigangli/Chimera for m = p.
 *
 * Rule: stage s of the first replica stands on rank s, of the second on rank
 * p-1-s, and each takes m/2 microbatches. One unit is p microbatches:
 * microbatch i of a replica enters at slot 2i, and with F = B, one slot each,
 * the two never meet:
 *
 *     F of stage s at 2i + s, B at 2i + 2p-1 - s
 *
 * p = 4, m = 4:
 *
 *     0F0 0F1 7F0 7B0 7F1 7B1 0B0 0B1
 *     1F0 6F0 1F1 6F1 6B0 1B0 6B1 1B1
 *     5F0 2F0 5F1 2F1 2B0 5B0 2B1 5B1
 *     4F0 4F1 3F0 3B0 3F1 3B1 4B0 4B1
 *
 * For m > p the paper lets such units follow each other ("direct concatenation"), and
 * doubles forwards or halves backwards where B = 2F, so that nothing meets. Here a list
 * is scheduled with B = 2F (greedy.h), in which stage s of a replica holds at most p-s
 * microbatches: never longer than either.
 */
#include "sched/generator.h"
#include "sched/greedy.h"

static const char *const aliases[] = {"chimera-bidirectional", NULL};

static pst_status refuse(const pst_shape *shape, pst_error *err)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (p % 2 != 0)
        return pst_error_set(err, PST_EINVAL,
                             "chimera: %d ranks; it needs an even number: use %d or %d",
                             p, p > 1 ? p - 1 : 2, p > 1 ? p + 1 : 4);
    if (m % 2 != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "chimera: %d microbatches; each replica takes half of them: "
            "use %d",
            m, m + 1);
    return PST_OK;
}

/* One unit: what stands in `slot` of the row, if anything. */
static void add_slot(pst_row *row, int p, int slot)
{
    for (int replica = 0; replica < 2; replica++) {
        const int s = replica ? p - 1 - row->rank : row->rank;
        const int forward = slot - s, backward = slot - (2 * p - 1 - s);
        if (forward >= 0 && forward % 2 == 0 && forward / 2 < row->below)
            pst__row_add(row, PST_OP_FORWARD, replica * p + s, forward / 2);
        if (backward >= 0 && backward % 2 == 0 && backward / 2 < row->below)
            pst__row_add(row, PST_OP_BACKWARD, replica * p + s, backward / 2);
    }
}

static pst_status fill_unit(pst_schedule_builder *builder, const pst_shape *shape,
                            pst_error *err)
{
    const int p = shape->ranks;
    for (int r = 0; r < p; r++) {
        pst_row row = {.builder = builder,
                       .rank = r,
                       .below = shape->microbatches / 2,
                       .err = err};
        for (int slot = 0; slot < 4 * p; slot++)
            add_slot(&row, p, slot);
        if (row.status != PST_OK)
            return row.status;
    }
    return PST_OK;
}

static pst_status fill_all(pst_schedule_builder *builder, const pst_shape *shape,
                           pst_error *err)
{
    const int p = shape->ranks;
    const pst_env *env = pst__schedule_builder_env(builder);
    if (shape->microbatches <= p)
        return fill_unit(builder, shape, err);
    int *places = pst_allocate_array(env, (size_t)(4 * p), sizeof *places);
    if (places == NULL)
        return pst_error_no_memory(err, "a schedule", 0);
    int *limit = places + 2 * p;
    for (int s = 0; s < p; s++) {
        places[s] = s;
        places[p + s] = p - 1 - s;
        limit[s] = limit[p + s] = p - s;
    }
    const pst_greedy how = {.rank_of_stage = places,
                            .forward = 1,
                            .backward_input = 1,
                            .backward_weight = 1,
                            .limit = limit};
    const pst_status status = pst__greedy_fill(builder, &how, err);
    pst_release(env, places);
    return status;
}

const pst_generator pst__chimera = {
    .kind = {.name = "chimera",
             .aliases = aliases,
             .summary = "two replicas fed from both ends",
             .source = "Li and Hoefler 2021 (Chimera)",
             .needs = "p even, m even; two replicas of the model",
             .costs =
                 "idle (p-2)F at m = p where F = B, beyond about (p-2)/(1.5m+p-2) of "
                 "the makespan where B = 2F; holds p/2+1 to p+1 microbatches and "
                 "twice the weights"},
    .refuse = refuse,
    .fill_all = fill_all,
    .chunks = 2,
    .replicas = 2,
};
