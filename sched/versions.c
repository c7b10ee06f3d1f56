/* SPDX-License-Identifier: BSD-3-Clause */
/* versions.c - which weights each microbatch of an asynchronous list uses. */
#include <string.h>

#include <penstock/schedule.h>

/* The newest when its F runs. */
static void assign_newest(const pst_schedule *schedule, int stage, uint32_t *version)
{
    size_t count;
    uint32_t newest = 0;
    const int rank = pst_schedule_rank_of(schedule, stage);
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    for (size_t i = 0; i < count; i++) {
        if (row[i].stage != stage)
            continue;
        if (row[i].op == PST_OP_FORWARD)
            version[row[i].microbatch] = newest;
        newest += row[i].op == PST_OP_STEP;
    }
}

/* One update behind its batch. */
static void assign_previous(const pst_schedule *schedule, int stage, uint32_t *version)
{
    size_t count;
    uint32_t batch = 0, next = 0;
    const int rank = pst_schedule_rank_of(schedule, stage);
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    for (size_t i = 0; i < count; i++) {
        if (row[i].stage != stage || row[i].op != PST_OP_STEP)
            continue;
        for (; next <= row[i].microbatch; next++)
            version[next] = batch > 0 ? batch - 1 : 0;
        batch++;
    }
}

void pst_schedule_assign_versions(const pst_schedule *schedule, int stage,
                                  uint32_t *version)
{
    const size_t m = (size_t)pst_schedule_microbatches(schedule);
    memset(version, 0, m * sizeof *version);
    if (pst_schedule_updates(schedule) == 0)
        return;
    if (pst_schedule_weight_policy(schedule) == PST_VERSIONS_DOUBLE)
        assign_previous(schedule, stage, version);
    else
        assign_newest(schedule, stage, version);
}

/* Most versions that are the newest or have a microbatch to come. `users` counts those
 * of each version. */
static int count_most(const pst_schedule *schedule, int stage, const uint32_t *version,
                      uint32_t *users)
{
    size_t count;
    uint32_t newest = 0;
    int old = 0, most = 1;
    const int rank = pst_schedule_rank_of(schedule, stage);
    const pst_action *row = pst_schedule_row(schedule, rank, &count);
    for (size_t i = 0; i < count; i++) {
        if (row[i].stage != stage)
            continue;
        if (row[i].op == PST_OP_STEP) {
            old += users[newest++] > 0;
            most = old + 1 > most ? old + 1 : most;
        } else if (pst_op_describe(row[i].op)->computes &&
                   pst_op_describe(row[i].op)->frees) {
            const uint32_t used = version[row[i].microbatch];
            users[used]--;
            old -= used < newest && users[used] == 0;
        }
    }
    return most;
}

int pst_schedule_weight_versions(const pst_env *env, const pst_schedule *schedule,
                                 int stage)
{
    const size_t m = (size_t)pst_schedule_microbatches(schedule);
    const int updates = pst_schedule_updates(schedule);
    if (updates == 0)
        return 1;
    uint32_t *version = pst_allocate_array(env, m, sizeof *version);
    uint32_t *users = pst_allocate_array(env, (size_t)updates + 1, sizeof *users);
    int most = -1;
    if (version != NULL && users != NULL) {
        pst_schedule_assign_versions(schedule, stage, version);
        for (size_t i = 0; i < m; i++)
            users[version[i]]++;
        most = count_most(schedule, stage, version, users);
    }
    pst_release(env, version);
    pst_release(env, users);
    return most;
}
