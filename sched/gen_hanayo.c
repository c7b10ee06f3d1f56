/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_hanayo.c - Hanayo: chunks laid out as waves.
 *
 * Source: Liu et al. 2023, "Hanayo: Harnessing Wave-like Pipeline Parallelism".
 *
 * Rule: chunk j of rank r is stage j p + r where j is even and j p + p-1-r where it is
 * odd, so a microbatch turns around at the ends without a message; v = 2w chunks make w
 * waves. No generator of the authors is public; the order is a list schedule with B =
 * 2F that prefers backwards (greedy.h). Stage s of S holds at most 2 ceil((S-s)/v) + 2
 * microbatches, which is about what a full pipeline needs.
 */
#include "sched/generator.h"
#include "sched/greedy.h"

static const char *const aliases[] = {"wave", NULL};

static pst_status fill_all(pst_schedule_builder *builder, const pst_shape *shape,
                           pst_error *err)
{
    const int p = shape->ranks, v = shape->chunks;
    const pst_env *env = pst__schedule_builder_env(builder);
    const int stages = p * v;
    int *places = pst_allocate_array(env, 2 * (size_t)stages, sizeof *places);
    if (places == NULL)
        return pst_error_no_memory(err, "a schedule", 0);
    int *limit = places + stages;
    for (int j = 0; j < v; j++)
        for (int i = 0; i < p; i++)
            places[j * p + i] = j % 2 == 0 ? i : p - 1 - i;
    for (int s = 0; s < stages; s++)
        limit[s] = 2 * ((stages - s + v - 1) / v) + 2;
    const pst_greedy how = {.rank_of_stage = places,
                            .forward = 1,
                            .backward_input = 1,
                            .backward_weight = 1,
                            .limit = limit};
    const pst_status status = pst__greedy_fill(builder, &how, err);
    pst_release(env, places);
    return status;
}

const pst_generator pst__hanayo = {
    .kind = {.name = "hanayo",
             .aliases = aliases,
             .summary = "chunks laid out as waves",
             .source = "Liu et al. 2023 (Hanayo)",
             .needs = "any p, m and v; v = 2w for w waves",
             .costs = "idle about (2p-2)/(3 p w+p-1) of the makespan at m = p, B = 2F"},
    .fill_all = fill_all,
    .chunks = 2,
    .chunks_most = PST__ANY_CHUNKS,
};
