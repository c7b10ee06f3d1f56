/* SPDX-License-Identifier: BSD-3-Clause */
/* test_team.c - parts of a callback's work on the cores of its rank. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "stages/team_members.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

enum { MOST_PARTS = 40, MOST_MEMBERS = 8 };

typedef struct job {
    int runs[MOST_PARTS]; /* of each part                                        */
    int member[MOST_PARTS];
    int threads[MOST_MEMBERS]; /* the kernel's number of each member             */
} job;

static void note(void *user, int part, int member)
{
    job *j = user;
    j->runs[part]++;
    j->member[part] = member;
    j->threads[member] = pst__thread_id();
}

static pst_atomic_u32 settled;

static void settle(void *user, pst_team_member *member)
{
    (void)user;
    (void)member;
    atomic_fetch_add(&settled, 1);
}

static pst_team *make_team(int size, uint64_t spin_ns)
{
    pst_error err = PST_ERROR_INIT;
    pst_team *team = NULL;
    atomic_store(&settled, 0);
    ck_assert_int_eq(
        pst__team_create(NULL, size, spin_ns, "team", settle, NULL, &team, &err),
        PST_OK);
    ck_assert_int_eq(pst_team_size(team), size);
    ck_assert_uint_eq(settled, (unsigned)size - 1);
    return team;
}

/* Each part once, by the member that the header says, whose thread is its own. */
static void check_job(const job *j, int parts, int size)
{
    for (int part = 0; part < MOST_PARTS; part++)
        ck_assert_int_eq(j->runs[part], part < parts);
    for (int part = 0; part < parts; part++) {
        const int member = j->member[part];
        ck_assert_int_ge(part, parts * member / size);
        ck_assert_int_lt(part, parts * (member + 1) / size);
    }
    for (int i = 0; i < size; i++)
        for (int k = 0; k < i; k++)
            ck_assert(j->threads[i] == 0 || j->threads[i] != j->threads[k]);
}

/* However they wait: looking, asleep at once, or something of both. */
START_TEST(test_parts)
{
    static const uint64_t spins[] = {0, 1000, 1000000};
    for (int size = 2; size <= MOST_MEMBERS; size++) {
        pst_team *team = make_team(size, spins[_i]);
        for (int parts = 0; parts <= MOST_PARTS; parts++) {
            job j = {.runs = {0}};
            pst_team_run(team, parts, note, &j);
            check_job(&j, parts, parts < 2 ? 1 : size);
        }
        pst__team_destroy(team, NULL);
    }
}
END_TEST

START_TEST(test_nobody)
{
    job j = {.runs = {0}};
    ck_assert_int_eq(pst_team_size(NULL), 1);
    pst_team_run(NULL, 7, note, &j);
    check_job(&j, 7, 1);
    ck_assert_int_eq(j.threads[0], pst__thread_id());
    pst__team_destroy(NULL, NULL);
    pst__team_stop(NULL);
}
END_TEST

START_TEST(test_stopped_twice)
{
    pst_team *team = make_team(3, 0);
    pst__team_stop(team);
    pst__team_stop(team);
    pst__team_destroy(team, NULL);
}
END_TEST

/* What is written before a job is seen in it, and what it wrote after it. */
static void step_on(void *user, int part, int member)
{
    uint64_t *cell = user;
    (void)member;
    cell[8 * (part + 1)] += cell[0];
}

START_TEST(test_many_jobs)
{
    uint64_t cells[8 * 5] = {0};
    pst_team *team = make_team(4, _i ? 20000 : 0);
    for (uint64_t job = 1; job <= 3000; job++) {
        cells[0] = job;
        pst_team_run(team, 4, step_on, cells);
        for (int part = 0; part < 4; part++)
            ck_assert_uint_eq(cells[8 * (part + 1)], job * (job + 1) / 2);
    }
    pst__team_destroy(team, NULL);
}
END_TEST

/* ---- in a pipeline ------------------------------------------------------------- */

typedef struct seen {
    pst_atomic_u32 calls;
    pst_atomic_u32 parts;
} seen;

static void look_for_rank(void *user, int part, int member)
{
    (void)part;
    (void)member;
    atomic_fetch_add((pst_atomic_u32 *)user, 1);
}

static pst_status use_team(void *user, int op, pst_work *work, pst_error *err)
{
    seen *s = user;
    (void)op;
    (void)err;
    ck_assert_int_eq(pst_team_size(work->team), 3);
    atomic_fetch_add(&s->calls, 1);
    pst_team_run(work->team, 5, look_for_rank, &s->parts);
    return PST_OK;
}

static void count_start(void *user, int rank)
{
    atomic_fetch_add((pst_atomic_u32 *)user + rank, 1);
}

START_TEST(test_pipeline_with_teams)
{
    static toy t;
    static seen s;
    static pst_atomic_u32 starts[2];
    const pst_pipeline_options options = {
        .team = 3, .worker_start = count_start, .worker_start_user = starts};
    toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    t.hook = use_team;
    t.user = &s;
    pst_pipeline *pipeline = toy_create(&t, NULL, &options);
    ck_assert_uint_eq(starts[0], 3);
    ck_assert_uint_eq(starts[1], 3);
    pst_schedule *schedule = toy_named("1f1b", 2, 8);
    const int program = toy_load(pipeline, schedule);
    pst_schedule_destroy(schedule);
    for (int i = 0; i < 5; i++)
        toy_run(&t, pipeline, program, 8, i);
    ck_assert_uint_gt(s.calls, 0);
    ck_assert_uint_eq(s.parts, 5 * s.calls);
    pst_pipeline_destroy(pipeline);
}
END_TEST

static void find_rank(void *user, int part, int member)
{
    pst_whereabouts place;
    (void)part;
    (void)member;
    ck_assert_int_eq(pst_pipeline_here(*(pst_pipeline **)user, &place), 1);
    ck_assert_int_eq(place.rank, 1);
    ck_assert_str_eq(place.name, "forward");
}

static pst_status ask_where(void *user, int op, pst_work *work, pst_error *err)
{
    (void)err;
    if (op == PST_OP_FORWARD && work->stage == 1)
        pst_team_run(work->team, 3, find_rank, user);
    return PST_OK;
}

/* A handler of signals on a member's thread learns what rank it works for. */
START_TEST(test_whereabouts)
{
    static toy t;
    static pst_pipeline *pipeline;
    const pst_pipeline_options options = {.team = 3};
    toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    t.hook = ask_where;
    t.user = &pipeline;
    pipeline = toy_create(&t, NULL, &options);
    pst_schedule *schedule = toy_named("gpipe", 2, 3);
    const int program = toy_load(pipeline, schedule);
    pst_schedule_destroy(schedule);
    toy_run(&t, pipeline, program, 3, 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_bad_size)
{
    static toy t;
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = NULL;
    const int rank_of_stage[] = {0, 1};
    const pst_pipeline_options options = {.team = _i};
    toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    ck_assert_int_eq(pst_pipeline_create(NULL, t.stage, 2, rank_of_stage, 2, &options,
                                         &pipeline, &err),
                     PST_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "a rank has 1 to 1024"));
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("team");
    TCase *alone = tcase_create("alone");
    tcase_add_loop_test(alone, test_parts, 0, 3);
    tcase_add_test(alone, test_nobody);
    tcase_add_test(alone, test_stopped_twice);
    tcase_add_loop_test(alone, test_many_jobs, 0, 2);
    suite_add_tcase(suite, alone);
    TCase *pipeline = tcase_create("pipeline");
    tcase_add_test(pipeline, test_pipeline_with_teams);
    tcase_add_test(pipeline, test_whereabouts);
    tcase_add_loop_test(pipeline, test_bad_size, -1, 0);
    suite_add_tcase(suite, pipeline);
    return suite;
}
