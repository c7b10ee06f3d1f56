/* SPDX-License-Identifier: BSD-3-Clause */
/* simulated.h - a list by name, its simulation, and its times as text. */
#ifndef PST_TESTS_SIMULATED_H
#define PST_TESTS_SIMULATED_H

#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

static pst_schedule *make(const char *name, int ranks, int microbatches)
{
    pst_schedule *schedule = NULL;
    const pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    ck_assert_int_eq(pst_schedule_create(NULL, name, &shape, &schedule, NULL), PST_OK);
    return schedule;
}

static pst_simulation *simulate(const pst_schedule *schedule, const pst_costs *costs)
{
    pst_error err = PST_ERROR_INIT;
    pst_simulation *simulation = NULL;
    pst_simulate(NULL, schedule, costs, &simulation, &err);
    ck_assert_msg(simulation != NULL, "%s", err.text);
    return simulation;
}

/* "0F0:0-1 0B0:4-6" of a rank, all iterations. */
static void assert_times(const pst_schedule *schedule, const pst_simulation *s,
                         int rank, const char *wanted)
{
    char text[ROW_SIZE] = "", action[32];
    size_t length, used = 0;
    const pst_action *row = pst_schedule_row(schedule, rank, &length);
    for (size_t i = 0; i < s->count[rank]; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s%s:%g-%g", i > 0 ? " " : "",
            pst_action_text(row[i % length], action, sizeof action), s->start[rank][i],
            s->end[rank][i]);
    ck_assert_str_eq(text, wanted);
}

#endif
