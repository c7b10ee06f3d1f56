/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replicate.c - copies of a list side by side, for data parallelism.
 *
 * Source: the order of ranks is Megatron-LM's (tensor, data, pipeline; the first varies
 * fastest): what adds up gradients stands together, and the hops of a pipeline, which
 * carry little, go further. With 2 copies of a list on 2 ranks:
 *
 *     rank 0   rank 0 of copy 0   stage 0         0F0 0F1 ...
 *     rank 1   rank 0 of copy 1   stage 0 + S     2F0 2F1 ...
 *     rank 2   rank 1 of copy 0   stage 1         1F0 1F1 ...
 *     rank 3   rank 1 of copy 1   stage 1 + S     3F0 3F1 ...
 */
#include <penstock/schedule.h>

enum { MOST_IDS = 65535 };

static pst_status check_copies(const pst_schedule *schedule, int copies, pst_error *err)
{
    const char *name = pst_schedule_name(schedule);
    const int stages = pst_schedule_stages(schedule);
    if (copies < 1)
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d copies side by side; at least 1 would work", name,
                             copies);
    if (stages > MOST_IDS / copies)
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d copies of %d stages; there are at most %d stages "
                             "in all: up to %d copies would work",
                             name, copies, stages, MOST_IDS, MOST_IDS / stages);
    if (copies > 1 && pst_schedule_updates(schedule) > 0)
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d copies side by side, and it has STEP: each stage "
                             "steps by itself, and its copies would have to agree "
                             "before each; a synchronous schedule would work",
                             name, copies);
    if (copies > 1 && pst_schedule_data_parallel(schedule) > 1)
        return pst_error_set(err, PST_EINVAL,
                             "%s: %d copies side by side of a list that has %d already",
                             name, copies, pst_schedule_data_parallel(schedule));
    return PST_OK;
}

static pst_status append_row(pst_schedule_builder *builder,
                             const pst_schedule *schedule, int rank, int copy,
                             int copies, pst_error *err)
{
    size_t count;
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    const int first_stage = copy * pst_schedule_stages(schedule);
    pst_status status = PST_OK;
    for (size_t i = 0; i < count && status == PST_OK; i++) {
        pst_action action = row[i];
        action.stage = (uint16_t)(action.stage + first_stage);
        status =
            pst_schedule_builder_append(builder, copy + copies * rank, action, err);
    }
    return status;
}

/* What a builder knows of a list beside its rows. */
static pst_status set_shape(pst_schedule_builder *builder, const pst_schedule *schedule,
                            int copies, pst_error *err)
{
    const int each = pst_schedule_data_parallel(schedule);
    pst_status status = pst_schedule_builder_set_replicas(
        builder, copies * pst_schedule_replicas(schedule), err);
    if (status == PST_OK)
        status = pst_schedule_builder_set_slices(builder, pst_schedule_slices(schedule),
                                                 err);
    if (status == PST_OK)
        status = pst_schedule_builder_set_data_parallel(builder, copies * each, err);
    pst_schedule_builder_set_weight_policy(builder,
                                           pst_schedule_weight_policy(schedule));
    return status;
}

pst_status pst_schedule_replicate(const pst_env *env, const pst_schedule *schedule,
                                  int copies, pst_schedule **out, pst_error *err)
{
    pst_schedule_builder *builder;
    const int ranks = pst_schedule_ranks(schedule);
    pst_status status = check_copies(schedule, copies, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_builder_create(
        env, copies * ranks, copies * pst_schedule_stages(schedule),
        pst_schedule_microbatches(schedule), &builder, err);
    if (status != PST_OK)
        return status;
    status = set_shape(builder, schedule, copies, err);
    for (int rank = 0; rank < ranks; rank++)
        for (int copy = 0; copy < copies && status == PST_OK; copy++)
            status = append_row(builder, schedule, rank, copy, copies, err);
    if (status == PST_OK)
        return pst_schedule_builder_finish(builder, pst_schedule_name(schedule), NULL,
                                           out, err);
    pst_schedule_builder_destroy(builder);
    return status;
}
