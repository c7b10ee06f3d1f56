/* SPDX-License-Identifier: BSD-3-Clause */
/* scenarios_team.c - a rank's team: jobs, and the waits of caller and members. */
#include "tests/stages/explore/atomic.h"

#include "tests/stages/explore/scenarios.h"

#include "stages/team.c"

enum { MOST_MEMBERS = 3 };

typedef struct team_play {
    pst_team *team;
    int size;
    int jobs;
    uint64_t spin_ns;
    int input;
    int output[MOST_MEMBERS];
    int settled[MOST_MEMBERS];
} team_play;

static team_play *play;

static void settle(void *user, pst_team_member *member)
{
    team_play *p = user;
    p->settled[member->number] = 1;
}

static void add_input(void *user, int part, int member)
{
    team_play *p = user;
    (void)member;
    p->output[part] += p->input;
}

static void *run_jobs(void *argument)
{
    if (pst__team_create(&explore_env, play->size, play->spin_ns, "team", settle, play,
                         &play->team, NULL) != PST_OK)
        explore_fail("a team cannot be made");
    int sum = 0;
    for (int member = 1; member < play->size; member++)
        if (!play->settled[member])
            explore_fail("member %d has not settled", member);
    for (int job = 1; job <= play->jobs; job++) {
        play->input = job;
        pst_team_run(play->team, play->size, add_input, play);
        sum += job;
        for (int part = 0; part < play->size; part++)
            if (play->output[part] != sum)
                explore_fail("part %d has made %d of %d", part, play->output[part],
                             sum);
    }
    pst__team_stop(play->team);
    return argument;
}

static void form(int size, int jobs, uint64_t spin_ns)
{
    play = pst_allocate(&explore_env, sizeof *play);
    play->size = size;
    play->jobs = jobs;
    play->spin_ns = spin_ns;
    explore_start(run_jobs, NULL);
}

static void pair_runs_once(void)
{
    form(2, 1, 0);
}

static void pair_runs_twice(void)
{
    form(2, 2, 0);
}

static void pair_spins(void)
{
    form(2, 1, 1000);
}

static void pair_spins_and_stops(void)
{
    form(2, 0, 1000);
}

static void three_stop(void)
{
    form(3, 0, 0);
}

static void three_run(void)
{
    form(3, 1, 0);
}

static const explore_scenario scenarios[] = {
    {"team of 2, 1 job", pair_runs_once, NULL, 0, EXPLORE_SMALL},
    {"team of 2, 2 jobs", pair_runs_twice, NULL, 0, EXPLORE_LONG},
    {"team of 2, spinning", pair_spins, NULL, 0, EXPLORE_LONG},
    {"team of 2, spinning, no job", pair_spins_and_stops, NULL, 0, EXPLORE_SMALL},
    {"team of 3, no job", three_stop, NULL, 0, EXPLORE_LARGE},
    {"team of 3, 1 job", three_run, NULL, 0, EXPLORE_LONG},
};

explore_scenarios explore_team_scenarios(void)
{
    return (explore_scenarios){scenarios, sizeof scenarios / sizeof *scenarios};
}
