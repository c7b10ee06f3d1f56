/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_tie.c - tied gradients: as a plain loop adds them, bit for bit, whatever the
 * number of members, how their elements are cut, and who is ready first.
 *
 * The stages here only have gradients, which numbers that no sum is exact for fill.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <check.h>

#include <penstock/pipeline.h>
#include <penstock/schedule.h>

#include "stages/tie.h"
#include "tests/stages/loopback.h"
#include "tests/suite.h"

enum { MOST_STAGES = 12, MOST_GRADIENTS = 3001, MICROBATCHES = 3, MOST_TIES = 4 };

typedef struct play {
    pst_stage stages[MOST_STAGES];
    int rank_of_stage[MOST_STAGES];
    int count;
    int ranks;
    size_t gradients;
    int slow;  /* the stage whose W takes 2 ms; -1: none                        */
    int stuck; /* the stage whose W takes for ever, as a watchdog counts; -1    */
    pst_tie ties[MOST_TIES];
    int tie_count;
    uint64_t delay_seed;
    double watchdog_seconds;
    pst_transport *transport; /* NULL: one process                             */
    int process_of_rank[MOST_STAGES];
} play;

static float contribution(int stage, int microbatch, int64_t iteration, size_t k)
{
    const double x = 1.7 * stage + 0.31 * microbatch + 0.013 * (double)iteration;
    return (float)((sin(x + (double)k) + 1.5) * pow(10, (double)((k + x) / 7 - 3)));
}

/* Not so many decades that nothing is left of the smaller ones. */
static float value(int stage, int microbatch, int64_t iteration, size_t k)
{
    return contribution(stage, microbatch, iteration, k % 19);
}

static void pause_for(long ns)
{
    const struct timespec nap = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&nap, NULL);
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)work, (void)err;
    return PST_OK;
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    const play *p = self;
    (void)err;
    if (work->stage == p->slow)
        pause_for(2000000);
    if (work->stage == p->stuck)
        pause_for(400000000);
    for (size_t k = 0; k < p->gradients; k++)
        work->gradients[k] += value(work->stage, work->microbatch, work->iteration, k);
    return PST_OK;
}

/* `count` stages of one float between neighbours, stage s on rank s mod `ranks`. */
static void set_up(play *p, int count, int ranks, size_t gradients)
{
    *p = (play){.count = count,
                .ranks = ranks,
                .gradients = gradients,
                .slow = -1,
                .stuck = -1};
    for (int s = 0; s < count; s++) {
        p->stages[s] = (pst_stage){.self = p,
                                   .forward = forward,
                                   .backward_input = forward,
                                   .backward_weight = backward_weight,
                                   .input_bytes = s > 0 ? sizeof(float) : 0,
                                   .output_bytes = s + 1 < count ? sizeof(float) : 0,
                                   .gradient_count = gradients};
        p->rank_of_stage[s] = s % ranks;
    }
}

static void append(pst_schedule_builder *builder, int rank, pst_op op, int stage, int m)
{
    const pst_action action = {
        .op = (uint8_t)op, .stage = (uint16_t)stage, .microbatch = (uint32_t)m};
    ck_assert_int_eq(pst_schedule_builder_append(builder, rank, action, NULL), PST_OK);
}

/* All forwards, then all backwards: full ones, or with their W's last. */
static pst_schedule *list(const play *p, int split)
{
    pst_schedule_builder *builder;
    pst_schedule *schedule;
    const pst_op back = split ? PST_OP_BACKWARD_INPUT : PST_OP_BACKWARD;
    ck_assert_int_eq(pst_schedule_builder_create(NULL, p->ranks, p->count, MICROBATCHES,
                                                 &builder, NULL),
                     PST_OK);
    for (int s = 0; s < p->count; s++)
        for (int m = 0; m < MICROBATCHES; m++)
            append(builder, s % p->ranks, PST_OP_FORWARD, s, m);
    for (int s = p->count; s-- > 0;)
        for (int m = 0; m < MICROBATCHES; m++)
            append(builder, s % p->ranks, back, s, m);
    for (int s = p->count; split && s-- > 0;)
        for (int m = 0; m < MICROBATCHES; m++)
            append(builder, s % p->ranks, PST_OP_BACKWARD_WEIGHT, s, m);
    ck_assert_int_eq(
        pst_schedule_builder_finish(builder, "list", NULL, &schedule, NULL), PST_OK);
    return schedule;
}

static pst_pipeline *start(play *p, int split)
{
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = NULL;
    const pst_pipeline_options options = {.bind = PST_BIND_NONE,
                                          .ties = p->ties,
                                          .tie_count = p->tie_count,
                                          .delay_seed = p->delay_seed,
                                          .watchdog_seconds = p->watchdog_seconds,
                                          .transport = p->transport,
                                          .process_of_rank = p->process_of_rank};
    pst_schedule *schedule = list(p, split);
    int program;
    pst_pipeline_create(NULL, p->stages, p->count, p->rank_of_stage, p->ranks, &options,
                        &pipeline, &err);
    ck_assert_msg(pipeline != NULL, "%s", err.text);
    ck_assert_msg(pst_pipeline_load(pipeline, schedule, &program, &err) == PST_OK, "%s",
                  err.text);
    pst_schedule_destroy(schedule);
    return pipeline;
}

static float wanted[MOST_STAGES][MOST_GRADIENTS];

/* What a plain loop makes of it. */
static void expect(const play *p, int64_t iteration)
{
    for (int s = 0; s < p->count; s++)
        for (size_t k = 0; k < p->gradients; k++) {
            wanted[s][k] = 0;
            for (int m = 0; m < MICROBATCHES; m++)
                wanted[s][k] += value(s, m, iteration, k);
        }
    for (int i = 0; i < p->tie_count; i++) {
        const pst_tie *tie = &p->ties[i];
        for (size_t k = 0; k < tie->count; k++) {
            const pst_tie_member *m = tie->members;
            float sum = wanted[m[0].stage][m[0].offset + k];
            for (int j = 1; j < tie->member_count; j++)
                sum += wanted[m[j].stage][m[j].offset + k];
            for (int j = 0; j < tie->member_count; j++)
                wanted[m[j].stage][m[j].offset + k] = sum;
        }
    }
}

static void run_and_compare(const play *p, pst_pipeline *pipeline, int64_t iteration)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_msg(pst_pipeline_run(pipeline, 0, 0, iteration, &err) == PST_OK, "%s",
                  err.text);
    expect(p, iteration);
    for (int s = 0; s < p->count; s++) {
        const float *found = pst_pipeline_gradients(pipeline, s);
        for (size_t k = 0; k < p->gradients; k++)
            ck_assert_msg(
                memcmp(&found[k], &wanted[s][k], sizeof *found) == 0,
                "seed %llu, iteration %lld: gradient %zu of stage %d is %.9g, "
                "not %.9g",
                (unsigned long long)p->delay_seed, (long long)iteration, k, s,
                (double)found[k], (double)wanted[s][k]);
    }
}

/* The same numbers in each run, so that the bits do not depend on who was first. */
static void run_often(play *p, int runs)
{
    for (int split = 0; split < 2; split++) {
        pst_pipeline *pipeline = start(p, split);
        for (int i = 0; i < runs; i++)
            run_and_compare(p, pipeline, i / 2);
        pst_pipeline_destroy(pipeline);
    }
}

static void tie(play *p, const pst_tie_member *members, int count, size_t floats)
{
    p->ties[p->tie_count++] =
        (pst_tie){.members = members, .member_count = count, .count = floats};
}

/* Loop variable: the number of members, each on a rank of its own. */
START_TEST(members_on_ranks_of_their_own)
{
    static const size_t counts[] = {0, 1, 3, 4, 7, 37, 1024, 1025, 3001};
    const pst_tie_member members[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
    play p;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            set_up(&p, 5, 5, counts[c]);
            p.delay_seed = seed;
            tie(&p, members, _i, counts[c]);
            run_often(&p, 3);
        }
}
END_TEST

START_TEST(members_of_one_stage_and_several_ties)
{
    const pst_tie_member same[] = {{1, 3}, {1, 14}, {4, 0}};
    const pst_tie_member backwards[] = {{5, 20}, {3, 0}, {0, 31}, {2, 6}};
    const pst_tie_member alone[] = {{4, 50}, {4, 58}};
    for (int ranks = 1; ranks <= 6; ranks += ranks == 3 ? 3 : 1)
        for (uint64_t seed = 0; seed < 4; seed++) {
            play p;
            set_up(&p, 6, ranks, 67);
            p.delay_seed = seed;
            tie(&p, same, 3, 11);
            tie(&p, backwards, 4, 36);
            tie(&p, alone, 2, 8);
            run_often(&p, 4);
        }
}
END_TEST

/* Loop variable: the stage that all wait for, asleep. */
START_TEST(one_is_late)
{
    const pst_tie_member members[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
    play p;
    set_up(&p, 4, 4, 501);
    p.slow = _i;
    tie(&p, members, 4, 501);
    run_often(&p, 4);
}
END_TEST

/* The rank to blame is the one that the others wait for behind their lists. */
START_TEST(a_watchdog_names_who_is_late)
{
    const pst_tie_member members[] = {{0, 0}, {2, 0}};
    pst_error err = PST_ERROR_INIT;
    play p;
    set_up(&p, 3, 3, 64);
    tie(&p, members, 2, 64);
    p.stuck = 0;
    p.watchdog_seconds = 0.2;
    pst_pipeline *pipeline = start(&p, 0);
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 1, &err), PST_ETIMEOUT);
    ck_assert_msg(
        strstr(err.text, "rank 0 is in stage 0, microbatch 0, backward (0B0)"), "%s",
        err.text);
    ck_assert_msg(strstr(err.text, "; 1 other rank waits for it"), "%s", err.text);
    const char *report = pst_pipeline_report(pipeline);
    ck_assert_msg(strstr(report, "rank 2 has ended its list and waited for "), "%s",
                  report);
    ck_assert_msg(strstr(report, " s for the gradients of stage 0, from rank 0\n"),
                  "%s", report);
    p.stuck = -1;
    run_and_compare(&p, pipeline, 2);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- over processes, which are threads here ---------------------------------------
 */

enum { PROCESSES = 3, RUNS = 6 };

typedef struct process {
    play play;
    pthread_t thread;
    int wrong; /* stages                                                       */
} process;

/* The same iteration each time: `wanted` is made once. */
static void *be_process(void *argument)
{
    process *own = argument;
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = start(&own->play, 1);
    for (int i = 0; i < RUNS && own->wrong == 0; i++) {
        if (pst_pipeline_run(pipeline, 0, 0, 5, &err) != PST_OK)
            own->wrong += MOST_STAGES;
        for (int s = 0; s < own->play.count; s++) {
            const float *found = pst_pipeline_gradients(pipeline, s);
            own->wrong += found && memcmp(found, wanted[s],
                                          own->play.gradients * sizeof *found) != 0;
        }
    }
    pst_pipeline_destroy(pipeline);
    return NULL;
}

/* Ranks go to processes by the digits of `mixture`. */
static void run_apart(const play *p, unsigned mixture)
{
    process all[PROCESSES];
    loopback *network = loopback_create(PROCESSES);
    expect(p, 5);
    for (int i = 0; i < PROCESSES; i++) {
        all[i] = (process){.play = *p};
        play *own = &all[i].play;
        unsigned digits = mixture;
        for (int rank = 0; rank < p->ranks; rank++, digits /= PROCESSES)
            own->process_of_rank[rank] = (int)(digits % PROCESSES);
        for (int s = 0; s < p->count; s++)
            own->stages[s].self = own;
        own->transport = loopback_end(network, i);
        pthread_create(&all[i].thread, NULL, be_process, &all[i]);
    }
    for (int i = 0; i < PROCESSES; i++) {
        pthread_join(all[i].thread, NULL);
        ck_assert_msg(all[i].wrong == 0, "mixture %u, process %d: %d", mixture, i,
                      all[i].wrong);
    }
    loopback_destroy(network);
}

START_TEST(members_in_several_processes)
{
    const pst_tie_member same[] = {{1, 3}, {1, 14}, {4, 0}};
    const pst_tie_member backwards[] = {{5, 20}, {3, 0}, {0, 31}, {2, 6}};
    const pst_tie_member two[] = {{4, 50}, {2, 58}};
    play p;
    set_up(&p, 6, _i, 67);
    tie(&p, same, 3, 11);
    tie(&p, backwards, 4, 36);
    tie(&p, two, 2, 8);
    for (unsigned mixture = 1; mixture < 729; mixture += _i == 6 ? 31 : 97)
        for (p.delay_seed = 0; p.delay_seed < 2; p.delay_seed++)
            run_apart(&p, mixture);
}
END_TEST

/* ---- its parts --------------------------------------------------------------------
 */

START_TEST(slices_cover_all)
{
    for (size_t count = 0; count < 40; count++)
        for (int slices = 1; slices < 9; slices++) {
            ck_assert_uint_eq(pst__tie_slice_start(count, slices, 0), 0);
            ck_assert_uint_eq(pst__tie_slice_start(count, slices, slices), count);
            for (int i = 0; i < slices; i++) {
                const size_t own = pst__tie_slice_start(count, slices, i + 1) -
                                   pst__tie_slice_start(count, slices, i);
                ck_assert_uint_ge(own, count / (size_t)slices);
                ck_assert_uint_le(own, (count + (size_t)slices - 1) / (size_t)slices);
            }
        }
}
END_TEST

/* 1e8 + 1 is 1e8 in float: the order shows. */
START_TEST(sums_go_by_members)
{
    float a[] = {9, 1e8f, 1, 9}, b[] = {9, 1, 1e8f, 9}, c[] = {9, -1e8f, -1e8f, 9};
    float *const members[] = {a, b, c}, *const other[] = {b, c, a};
    pst__tie_sum(members, 3, 1, 3);
    ck_assert_float_eq(a[1], 0);
    ck_assert_float_eq(c[2], 0);
    ck_assert_float_eq(b[0], 9);
    ck_assert_float_eq(b[3], 9);
    a[1] = 1e8f, b[1] = 1, c[1] = -1e8f;
    pst__tie_sum(other, 3, 1, 2);
    ck_assert_float_eq(b[1], 0);
    a[1] = 1, b[1] = 1e8f, c[1] = -1e8f;
    pst__tie_sum(other, 3, 1, 2);
    ck_assert_float_eq(b[1], 1);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("tie");
    TCase *all = tcase_create("tie");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, members_on_ranks_of_their_own, 2, 6);
    tcase_add_test(all, members_of_one_stage_and_several_ties);
    tcase_add_loop_test(all, one_is_late, 0, 4);
    tcase_add_test(all, a_watchdog_names_who_is_late);
    tcase_add_loop_test(all, members_in_several_processes, 3, 7);
    tcase_add_test(all, slices_cover_all);
    tcase_add_test(all, sums_go_by_members);
    suite_add_tcase(suite, all);
    return suite;
}
