/* SPDX-License-Identifier: BSD-3-Clause */
/* check_capacity.c - how many messages must channels hold for a list to be run? */
#include <penstock/check.h>

#include "sched/deadlock.h"
#include "sched/lower_in_time.h"

static int has_messages(const pst_schedule *schedule)
{
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++)
            if (!pst_op_describe(row[i].op)->runs &&
                pst_op_describe(row[i].op)->has_microbatch)
                return 1;
    }
    return 0;
}

/* The list in the least lucky way to place messages; *lowered is NULL where they
 * stand in it already. */
static pst_status place_messages(const pst_env *env, const pst_schedule *schedule,
                                 pst_schedule **lowered, pst_error *err)
{
    pst_schedule *computing;
    *lowered = NULL;
    if (has_messages(schedule))
        return PST_OK;
    pst_status status = pst_schedule_compute_only(env, schedule, &computing, err);
    if (status != PST_OK)
        return status;
    status = pst__lower_in_time(env, computing, lowered, err);
    pst_schedule_destroy(computing);
    return status;
}

pst_status pst_schedule_check_rendezvous(const pst_env *env,
                                         const pst_schedule *schedule, pst_error *err)
{
    pst_schedule *lowered;
    pst_status status = place_messages(env, schedule, &lowered, err);
    if (status != PST_OK)
        return status;
    status = pst__deadlock_check(env, lowered != NULL ? lowered : schedule,
                                 PST__SENDS_RENDEZVOUS, err);
    pst_schedule_destroy(lowered);
    return status;
}

/* The cycle, and what would do. */
static pst_status refuse(const pst_env *env, const pst_schedule *schedule, int capacity,
                         const pst_error *why, pst_error *err)
{
    int least;
    pst_status status = pst__deadlock_least_capacity(env, schedule, &least, err);
    if (status != PST_OK)
        return status;
    return pst_error_set_at(err, PST_EDEADLOCK, why->file, why->line,
                            "channel capacity %d: %s; a capacity of %d would do",
                            capacity, why->text, least);
}

pst_status pst_schedule_check_capacity(const pst_env *env, const pst_schedule *schedule,
                                       int capacity, pst_error *err)
{
    pst_schedule *lowered;
    pst_error why = PST_ERROR_INIT;
    if (capacity < 0)
        return pst_error_set(err, PST_EINVAL,
                             "a channel capacity of %d; 0 or more would work",
                             capacity);
    pst_status status = place_messages(env, schedule, &lowered, err);
    if (status != PST_OK)
        return status;
    const pst_schedule *placed = lowered != NULL ? lowered : schedule;
    status = pst__deadlock_check(env, placed, capacity, &why);
    if (status == PST_EDEADLOCK)
        status = refuse(env, placed, capacity, &why, err);
    else if (status != PST_OK)
        pst_error_set(err, status, "%s", why.text);
    pst_schedule_destroy(lowered);
    return status;
}

pst_status pst_schedule_least_capacity(const pst_env *env, const pst_schedule *schedule,
                                       int *capacity, pst_error *err)
{
    pst_schedule *lowered;
    pst_status status = place_messages(env, schedule, &lowered, err);
    if (status != PST_OK)
        return status;
    status = pst__deadlock_least_capacity(env, lowered != NULL ? lowered : schedule,
                                          capacity, err);
    pst_schedule_destroy(lowered);
    return status;
}
