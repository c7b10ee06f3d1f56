/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_crossing.c - one pipeline in several processes, which are threads here: every
 * list, in every mixture of ranks, gives the results of one process.
 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stages/loopback.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

enum { MOST = 4 };

/* What all processes do, each on its own thread. */
typedef struct job {
    int processes;
    toy_shape shape;
    int process_of_rank[TOY_STAGES];
    pst_schedule *schedules[3];
    int schedule_count;
    int microbatches;
    uint64_t delay_seed;
    double watchdog_seconds;
    toy_hook hook; /* of process `hooked`                                       */
    int hooked;
    loopback *network;
} job;

typedef struct process {
    const job *job;
    int number;
    pthread_t thread;
    toy toy;
    pst_status status;
    pst_error err;
} process;

static process processes[MOST];

static pst_pipeline_options options_of(const process *p)
{
    return (pst_pipeline_options){
        .bind = PST_BIND_NONE,
        .watchdog_seconds = p->job->watchdog_seconds,
        .delay_seed = p->job->delay_seed ? p->job->delay_seed + (uint64_t)p->number : 0,
        .transport = loopback_end(p->job->network, p->number),
        .process_of_rank = p->job->process_of_rank};
}

static void *run_right(void *argument)
{
    process *p = argument;
    const job *job = p->job;
    int programs[3];
    toy_init(&p->toy, &job->shape);
    const pst_pipeline_options options = options_of(p);
    pst_pipeline *pipeline = toy_create(&p->toy, NULL, &options);
    for (int i = 0; i < job->schedule_count; i++)
        programs[i] = toy_load(pipeline, job->schedules[i]);
    for (int i = 0; i < 3 * job->schedule_count; i++)
        toy_run(&p->toy, pipeline, programs[i % job->schedule_count], job->microbatches,
                i);
    pst_pipeline_destroy(pipeline);
    return NULL;
}

static void *run_to_its_end(void *argument)
{
    process *p = argument;
    const job *job = p->job;
    toy_init(&p->toy, &job->shape);
    p->toy.hook = p->number == job->hooked ? job->hook : NULL;
    const pst_pipeline_options options = options_of(p);
    pst_pipeline *pipeline = toy_create(&p->toy, NULL, &options);
    const int program = toy_load(pipeline, job->schedules[0]);
    p->err = (pst_error)PST_ERROR_INIT;
    p->status = pst_pipeline_run(pipeline, program, 0, 0, &p->err);
    pst_error again = PST_ERROR_INIT;
    ck_assert_int_ne(pst_pipeline_run(pipeline, program, 0, 1, &again), PST_OK);
    pst_pipeline_destroy(pipeline);
    return NULL;
}

static void do_job(job *j, void *(*main)(void *))
{
    j->network = loopback_create(j->processes);
    for (int i = 0; i < j->processes; i++) {
        processes[i].job = j;
        processes[i].number = i;
        ck_assert_int_eq(
            pthread_create(&processes[i].thread, NULL, main, &processes[i]), 0);
    }
    for (int i = 0; i < j->processes; i++)
        pthread_join(processes[i].thread, NULL);
    loopback_destroy(j->network);
    for (int i = 0; i < j->schedule_count; i++)
        pst_schedule_destroy(j->schedules[i]);
}

static void place(job *j, unsigned mixture)
{
    for (int rank = 0; rank < j->shape.ranks; rank++, mixture /= (unsigned)j->processes)
        j->process_of_rank[rank] = (int)(mixture % (unsigned)j->processes);
}

static const char *const kinds[] = {"gpipe", "1f1b",  "eager-1f1b", "zb-h1",
                                    "zb-h2", "zb-1p", "zb-2p",      "bpipe"};

START_TEST(test_named)
{
    for (int n = 2; n <= MOST; n++) {
        job j = {.processes = n,
                 .shape = {.stages = 4, .ranks = 4, .exact = true},
                 .schedule_count = 2,
                 .microbatches = 6};
        for (unsigned mixture = 1; mixture < 24; mixture += 5) {
            place(&j, mixture * 7);
            j.schedules[0] = toy_named(kinds[_i], 4, 6);
            j.schedules[1] = toy_named("1f1b", 4, 6);
            do_job(&j, run_right);
        }
    }
}
END_TEST

START_TEST(test_random)
{
    static const int two_each[] = {0, 1, 2, 2, 1, 0}, looped[] = {0, 1, 2, 0, 1, 2};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        job j = {.processes = 2 + (int)seed % 3,
                 .shape = {.stages = 6,
                           .ranks = 3,
                           .rank_of_stage = seed % 2 ? two_each : looped,
                           .shrinks = seed % 4 == 0,
                           .exact = seed % 4 == 1},
                 .schedule_count = 3,
                 .microbatches = 1 + (int)seed % 7,
                 .delay_seed = _i ? seed : 0};
        place(&j, (unsigned)seed * 11);
        toy_init(&processes[0].toy, &j.shape);
        for (int i = 0; i < 3; i++)
            j.schedules[i] =
                toy_random(&processes[0].toy, j.microbatches,
                           seed * 8 + (uint64_t)(3 * _i + i), (seed + (uint64_t)i) % 2);
        do_job(&j, run_right);
    }
}
END_TEST

START_TEST(test_sliced)
{
    for (int slices = 2; slices <= 4; slices++) {
        job j = {.processes = 3,
                 .shape = {.stages = 3, .ranks = 3, .slices = slices},
                 .schedule_count = 1,
                 .microbatches = 3 * slices};
        place(&j, 5);
        toy_init(&processes[0].toy, &j.shape);
        j.schedules[0] = toy_sliced(&processes[0].toy, 3, 3);
        do_job(&j, run_right);
    }
}
END_TEST

static pst_status fail_in_stage_2(void *user, int op, pst_work *work, pst_error *err)
{
    (void)user;
    if (op == PST_OP_BACKWARD_INPUT && work->stage == 2 && work->microbatch == 1)
        return pst_error_set(err, PST_EIO, "the disk is on fire");
    return PST_OK;
}

START_TEST(test_failure_is_told_to_all)
{
    static const char told[] = "process 2 on node-2: stage 2, microbatch 1, "
                               "backward-input (2B1): the disk is on fire";
    job j = {.processes = 4,
             .shape = {.stages = 4, .ranks = 4},
             .schedule_count = 1,
             .microbatches = 4,
             .hook = fail_in_stage_2,
             .hooked = 2};
    for (int rank = 0; rank < 4; rank++)
        j.process_of_rank[rank] = rank;
    j.schedules[0] = toy_named("1f1b", 4, 4);
    do_job(&j, run_to_its_end);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(processes[i].status, i == 2 ? PST_EIO : PST_EPEER);
        ck_assert_str_eq(processes[i].err.text, i == 2 ? strstr(told, "stage") : told);
    }
}
END_TEST

static pst_status dwell_in_stage_1(void *user, int op, pst_work *work, pst_error *err)
{
    (void)user;
    (void)err;
    if (op == PST_OP_FORWARD && work->stage == 1 && work->microbatch == 2) {
        const struct timespec second = {.tv_sec = 1};
        nanosleep(&second, NULL);
    }
    return PST_OK;
}

START_TEST(test_stall_is_blamed_on_its_rank)
{
    job j = {.processes = 3,
             .shape = {.stages = 3, .ranks = 3},
             .schedule_count = 1,
             .microbatches = 4,
             .watchdog_seconds = 0.3,
             .hook = dwell_in_stage_1,
             .hooked = 1};
    for (int rank = 0; rank < 3; rank++)
        j.process_of_rank[rank] = rank;
    j.schedules[0] = toy_named("1f1b", 3, 4);
    do_job(&j, run_to_its_end);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(processes[i].status, i == 1 ? PST_ETIMEOUT : PST_EPEER);
        ck_assert_msg(
            strstr(processes[i].err.text, "rank 1 is in stage 1, microbatch 2"), "%s",
            processes[i].err.text);
    }
}
END_TEST

START_TEST(test_refusals)
{
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline;
    loopback *network = loopback_create(1);
    static const int far[] = {0, 1};
    toy_init(&processes[0].toy, &(toy_shape){.stages = 2, .ranks = 2});
    pst_pipeline_options options = {.transport = loopback_end(network, 0)};
    ck_assert_int_eq(pst_pipeline_create(NULL, processes[0].toy.stage, 2,
                                         processes[0].toy.rank_of_stage, 2, &options,
                                         &pipeline, &err),
                     PST_EINVAL);
    ck_assert_str_eq(
        err.text, "a transport without process_of_rank, which says who runs each rank");
    loopback_destroy(network);
    network = loopback_create(1);
    err = (pst_error)PST_ERROR_INIT;
    options.transport = loopback_end(network, 0);
    options.process_of_rank = far;
    ck_assert_int_eq(pst_pipeline_create(NULL, processes[0].toy.stage, 2,
                                         processes[0].toy.rank_of_stage, 2, &options,
                                         &pipeline, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text, "rank 1 is to run on process 1; they are 0 .. 0");
    loopback_destroy(network);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("crossing");
    TCase *all = tcase_create("crossing");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, test_named, 0, (int)(sizeof kinds / sizeof *kinds));
    tcase_add_loop_test(all, test_random, 0, 2);
    tcase_add_test(all, test_sliced);
    tcase_add_test(all, test_failure_is_told_to_all);
    tcase_add_test(all, test_stall_is_blamed_on_its_rank);
    tcase_add_test(all, test_refusals);
    suite_add_tcase(suite, all);
    return suite;
}
