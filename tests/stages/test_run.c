/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_run.c - how runs end: ties, combine and step, failing and hanging callbacks,
 * cancelling, what may be asked of a run.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "stages/engine.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

static toy t;

/* A pipeline with one rank a stage and one list in it. */
static pst_pipeline *open_list(pst_schedule *schedule, const pst_env *env,
                               const pst_pipeline_options *options)
{
    const int ranks = pst_schedule_ranks(schedule);
    toy_init(&t, &(toy_shape){.stages = ranks, .ranks = ranks, .exact = true});
    pst_pipeline *pipeline = toy_create(&t, env, options);
    ck_assert_int_eq(toy_load(pipeline, schedule), 0);
    pst_schedule_destroy(schedule);
    return pipeline;
}

static void run_fails(pst_pipeline *pipeline, pst_status status, const char *text)
{
    pst_error err = PST_ERROR_INIT;
    const pst_status found = pst_pipeline_run(pipeline, 0, 0, 1, &err);
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(found, status);
    ck_assert_int_eq(err.status, status);
}

/* ---- failing callbacks --------------------------------------------------- */

typedef struct failure {
    int op;
    int stage;
    int microbatch; /* -1 in reduce and step                                   */
    bool silent;
} failure;

static pst_status fail_there(void *user, int op, pst_work *work, pst_error *err)
{
    const failure *f = user;
    if (op != f->op || work->stage != f->stage || work->microbatch != f->microbatch)
        return PST_OK;
    return f->silent ? PST_ENUMERIC : pst_error_set(err, PST_ENUMERIC, "on purpose");
}

/* "1W2" or, where the row has one action for both, "1B2". */
static const char *cell_of(const failure *f, bool whole, char *text, size_t size)
{
    static const char *const names[] = {[PST_OP_FORWARD] = "F",
                                        [PST_OP_BACKWARD_INPUT] = "I",
                                        [PST_OP_BACKWARD_WEIGHT] = "W"};
    const char *name = whole && f->op != PST_OP_FORWARD ? "B" : names[f->op];
    snprintf(text, size, "%d%s%d", f->stage, name, f->microbatch);
    return text;
}

static void expected_text(const failure *f, bool whole, char *text, size_t size)
{
    static const char *const words[] = {[PST_OP_FORWARD] = "forward",
                                        [PST_OP_BACKWARD_INPUT] = "backward-input",
                                        [PST_OP_BACKWARD_WEIGHT] = "backward-weight",
                                        [TOY_REDUCE] = "reduce",
                                        [TOY_STEP] = "step"};
    const char *why = f->silent ? pst_status_text(PST_ENUMERIC) : "on purpose";
    char cell[32];
    if (f->microbatch < 0)
        snprintf(text, size, "stage %d, %s: %s", f->stage, words[f->op], why);
    else
        snprintf(text, size, "stage %d, microbatch %d, %s (%s): %s", f->stage,
                 f->microbatch, words[f->op], cell_of(f, whole, cell, sizeof cell),
                 why);
}

static void fail_and_go_on(pst_pipeline *pipeline, failure f, bool whole)
{
    char text[256];
    expected_text(&f, whole, text, sizeof text);
    t.user = &f;
    t.hook = fail_there;
    run_fails(pipeline, PST_ENUMERIC, text);
    t.hook = NULL;
    toy_run(&t, pipeline, 0, 3, 2);
}

static void fail_everywhere(pst_schedule *schedule, bool whole)
{
    static const int ops[] = {PST_OP_FORWARD, PST_OP_BACKWARD_INPUT,
                              PST_OP_BACKWARD_WEIGHT};
    toy_env memory;
    toy_env_init(&memory);
    pst_pipeline *pipeline = open_list(schedule, &memory.env, NULL);
    for (int stage = 0; stage < 3; stage++) {
        for (int op = 0; op < 3; op++)
            for (int b = 0; b < 3; b++)
                fail_and_go_on(pipeline, (failure){ops[op], stage, b, b == 1}, whole);
        fail_and_go_on(pipeline, (failure){TOY_REDUCE, stage, -1, false}, whole);
        fail_and_go_on(pipeline, (failure){TOY_STEP, stage, -1, true}, whole);
    }
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
}

START_TEST(test_failing_callbacks)
{
    fail_everywhere(toy_named("gpipe", 3, 3), true);
    fail_everywhere(toy_named("1f1b", 3, 3), true);
    fail_everywhere(toy_parse("0F0,0F1,0F2,0I0,0I1,0I2,0W2,0W1,0W0\n"
                              "1F0,1F1,1I0,1F2,1I1,1W1,1I2,1W2,1W0\n"
                              "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2W1,2W2\n"),
                    false);
}
END_TEST

static pst_status fail_always(void *user, int op, pst_work *work, pst_error *err)
{
    (void)user;
    (void)op;
    return pst_error_set(err, PST_EIO, "rank %d", work->rank);
}

/* Several fail at once: one of them is told, whole. */
static pst_status fail_in_slice(void *user, int op, pst_work *work, pst_error *err)
{
    (void)user;
    return op == PST_OP_FORWARD && work->microbatch == 1 && work->slice == 2
               ? pst_error_set(err, PST_ENUMERIC, "on purpose")
               : PST_OK;
}

/* The cell is named as the list writes it. */
START_TEST(test_failing_slice)
{
    toy_init(&t, &(toy_shape){.stages = 1, .ranks = 1, .exact = true, .slices = 3});
    pst_pipeline *pipeline = toy_create(&t, NULL, NULL);
    pst_schedule *schedule = toy_sliced(&t, 1, 2);
    ck_assert_int_eq(toy_load(pipeline, schedule), 0);
    t.hook = fail_in_slice;
    run_fails(pipeline, PST_ENUMERIC,
              "stage 0, microbatch 1, slice 2, forward (0F5): on purpose");
    t.hook = NULL;
    toy_run(&t, pipeline, 0, 6, 2);
    pst_schedule_destroy(schedule);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_all_fail)
{
    pst_pipeline *pipeline =
        open_list(toy_parse("0F0\n1F0\n2F0\n3F0\n"), NULL,
                  &(pst_pipeline_options){.delay_seed = (uint64_t)_i + 1});
    pst_error err = PST_ERROR_INIT;
    t.hook = fail_always;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, &err), PST_EIO);
    ck_assert_str_eq(err.text, "stage 0, microbatch 0, forward (0F0): rank 0");
    t.hook = NULL;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, NULL), PST_OK);
    t.hook = fail_always;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, NULL), PST_EIO);
    pst_pipeline_destroy(pipeline);
}
END_TEST

static pst_status lie_about_length(void *user, int op, pst_work *work, pst_error *err)
{
    const int *lying_op = user;
    (void)err;
    if (op == *lying_op && op == PST_OP_FORWARD && work->stage == 1)
        work->output_bytes = 4000;
    if (op == *lying_op && op == PST_OP_BACKWARD_INPUT && work->stage == 1)
        work->input_grad_bytes = 33;
    return PST_OK;
}

START_TEST(test_lengths_too_large)
{
    pst_pipeline *pipeline = open_list(toy_named("1f1b", 3, 3), NULL, NULL);
    int op = PST_OP_FORWARD;
    t.hook = lie_about_length;
    t.user = &op;
    run_fails(
        pipeline, PST_ECALLBACK,
        "stage 1, microbatch 0 (1F0): the callback says its output has 4000 bytes; "
        "the buffer has 32");
    op = PST_OP_BACKWARD_INPUT;
    run_fails(
        pipeline, PST_ECALLBACK,
        "stage 1, microbatch 0 (1B0): the callback says its input gradient has 33 "
        "bytes; the buffer has 32");
    t.hook = NULL;
    toy_run(&t, pipeline, 0, 3, 2);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- hanging callbacks --------------------------------------------------- */

typedef struct hang {
    failure where;
    pst_pipeline *pipeline;
    sem_t arrived;
    sem_t go_on;
    pthread_t caller;
} hang;

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        continue;
}

static void init_hang(hang *h, failure where)
{
    *h = (hang){.where = where, .caller = pthread_self()};
    ck_assert_int_eq(sem_init(&h->arrived, 0, 0), 0);
    ck_assert_int_eq(sem_init(&h->go_on, 0, 0), 0);
}

static bool is_there(const hang *h, int op, const pst_work *work)
{
    return op == h->where.op && work->stage == h->where.stage &&
           work->microbatch == h->where.microbatch;
}

static pst_status hang_there(void *user, int op, pst_work *work, pst_error *err)
{
    hang *h = user;
    (void)err;
    if (is_there(h, op, work)) {
        sem_post(&h->arrived);
        wait_for(&h->go_on);
    }
    return PST_OK;
}

static const char gone[] =
    "a stage's callback has not returned from an earlier run; this "
    "pipeline can only be destroyed";

/* The memory stays: a worker is still in it. static, so that its blocks have an owner.
 */
static toy_env kept_memory;

/* `text` without its numbers of seconds and its actions' places in their rows. */
static const char *without_times(const char *text)
{
    static char plain[1024];
    size_t length = 0;
    for (; *text && length + 4 < sizeof plain; text++) {
        int used = 0;
        sscanf(text, " for %*d.%*d s%n", &used);
        if (used > 0) {
            memcpy(plain + length, " T", 2);
            length += 2;
            text += used - 1;
        } else {
            plain[length++] = *text;
        }
    }
    plain[length] = '\0';
    return plain;
}

/* The worker hangs, is blamed and counted, and everything else ends in time. */
static void hang_for_good(failure where, const char *text, const char *report)
{
    static hang h;
    char dump[512], whole[832];
    size_t bytes;
    init_hang(&h, where);
    toy_env_init(&kept_memory);
    pst_pipeline *pipeline = open_list(
        toy_named("gpipe", 3, 2), &kept_memory.env,
        &(pst_pipeline_options){.bind = PST_BIND_NONE, .watchdog_seconds = 0.2});
    toy_run(&t, pipeline, 0, 2, 0);
    ck_assert_str_eq(pst_pipeline_report(pipeline), "");
    ck_assert_int_eq(pst_pipeline_abandoned(pipeline, &bytes), 0);
    ck_assert_uint_eq(bytes, 0);
    t.hook = hang_there;
    t.user = &h;
    bytes = 0;
    for (int rank = 0; rank < 3; rank++) {
        pst_worker_info info;
        pst_pipeline_worker(pipeline, rank, &info);
        bytes += info.memory_bytes;
    }
    snprintf(whole, sizeof whole,
             "%s; 1 thread in a callback that does not return is abandoned, and %zu "
             "bytes of memory",
             text, bytes);
    const uint64_t start = pst__now_ns();
    run_fails(pipeline, PST_ETIMEOUT, whole);
    ck_assert_uint_lt(pst__now_ns() - start, 2200000000u);
    ck_assert_str_eq(without_times(pst_pipeline_report(pipeline)), report);
    run_fails(pipeline, PST_ETIMEOUT, gone);
    run_fails(pipeline, PST_ETIMEOUT, gone);
    size_t found;
    ck_assert_int_eq(pst_pipeline_abandoned(pipeline, &found), 1);
    ck_assert_uint_eq(found, bytes);
    ck_assert_uint_eq(pst_pipeline_dump(pipeline, dump, sizeof dump), strlen(dump));
    pst_pipeline_destroy(pipeline);
    ck_assert_int_gt(kept_memory.live, 0);
    snprintf(whole, sizeof whole,
             "1 worker is in a callback that does not return; %zu bytes of memory stay "
             "with it",
             bytes);
    ck_assert_str_eq(kept_memory.last_line, whole);
    sem_post(&h.go_on);
}

START_TEST(test_hang_in_forward)
{
    hang_for_good(
        (failure){PST_OP_FORWARD, 1, 1, false},
        "rank 1 is in stage 1, microbatch 1, forward (1F1), and no action has ended "
        "for "
        "0.2 s, the watchdog's limit; 2 other ranks wait for it",
        "rank 0 has waited in 0B0 (action 3 of 4) T for the gradient for stage 0, "
        "microbatch 0, from rank 1\n"
        "rank 1 has been in 1F1 (action 2 of 4) T; the culprit\n"
        "rank 2 has waited in 2F1 (action 2 of 4) T for the activation for stage 2, "
        "microbatch 1, from rank 1\n");
}
END_TEST

START_TEST(test_hang_in_backward)
{
    hang_for_good(
        (failure){PST_OP_BACKWARD_WEIGHT, 2, 0, false},
        "rank 2 is in stage 2, microbatch 0, backward (2B0), and no action has ended "
        "for 0.2 s, the watchdog's limit; 2 other ranks wait for it",
        "rank 0 has waited in 0B0 (action 3 of 4) T for the gradient for stage 0, "
        "microbatch 0, from rank 1\n"
        "rank 1 has waited in 1B0 (action 3 of 4) T for the gradient for stage 1, "
        "microbatch 0, from rank 2\n"
        "rank 2 has been in 2B0 (action 3 of 4) T; the culprit\n");
}
END_TEST

START_TEST(test_hang_in_reduce)
{
    hang_for_good(
        (failure){TOY_REDUCE, 1, -1, false},
        "rank 1 is in stage 1, reduce, and no action has ended for 0.2 s, the "
        "watchdog's limit",
        "rank 0 is idle\n"
        "rank 1 has been in reduce of stage 1 T; the culprit\n"
        "rank 2 is idle\n");
}
END_TEST

START_TEST(test_hang_in_step)
{
    hang_for_good((failure){TOY_STEP, 0, -1, false},
                  "rank 0 is in stage 0, step, and no action has ended for 0.2 s, the "
                  "watchdog's limit",
                  "rank 0 has been in step of stage 0 T; the culprit\n"
                  "rank 1 is idle\n"
                  "rank 2 is idle\n");
}
END_TEST

/* One rank fails while another hangs: the failure is told, and the hang does not wait
 * for the watchdog. */
typedef struct both {
    hang hang;
    failure failure;
} both;

static pst_status hang_and_fail(void *user, int op, pst_work *work, pst_error *err)
{
    both *b = user;
    if (op == b->failure.op && work->stage == b->failure.stage)
        wait_for(&b->hang.arrived);
    const pst_status status = fail_there(&b->failure, op, work, err);
    return status == PST_OK ? hang_there(&b->hang, op, work, err) : status;
}

START_TEST(test_failure_beside_a_hang)
{
    static both b;
    size_t bytes;
    char text[256];
    b.failure = (failure){PST_OP_FORWARD, 0, 1, false};
    init_hang(&b.hang, (failure){PST_OP_FORWARD, 1, 0, false});
    sem_post(&b.hang.arrived);
    toy_env_init(&kept_memory);
    pst_pipeline *pipeline = open_list(toy_named("gpipe", 3, 2), &kept_memory.env,
                                       &(pst_pipeline_options){.watchdog_seconds = -1});
    toy_run(&t, pipeline, 0, 2, 0);
    t.hook = hang_and_fail;
    t.user = &b;
    pst_error err = PST_ERROR_INIT;
    const uint64_t start = pst__now_ns();
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 1, &err), PST_ENUMERIC);
    ck_assert_uint_lt(pst__now_ns() - start, 2000000000u);
    ck_assert_int_eq(pst_pipeline_abandoned(pipeline, &bytes), 1);
    snprintf(text, sizeof text,
             "stage 0, microbatch 1, forward (0F1): on purpose; 1 thread in a callback "
             "that does not return is abandoned, and %zu bytes of memory",
             bytes);
    ck_assert_str_eq(err.text, text);
    ck_assert_ptr_nonnull(
        strstr(pst_pipeline_report(pipeline), "rank 0 has been in 0F1 "));
    ck_assert_ptr_nonnull(strstr(pst_pipeline_report(pipeline), " s; the culprit\n"));
    sem_post(&b.hang.go_on);
    while (pst_pipeline_abandoned(pipeline, &bytes) > 0)
        sched_yield();
    /* It came back after all: nothing has to stay. */
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(kept_memory.live, 0);
}
END_TEST

/* Where a callback is, as a handler of SIGSEGV would ask. */
static pst_pipeline *asked;
static pst_whereabouts places[3][2];

static pst_status ask_where(void *user, int op, pst_work *work, pst_error *err)
{
    (void)user;
    (void)err;
    if (op == PST_OP_FORWARD && work->microbatch == 1)
        pst_pipeline_here(asked, &places[work->stage][0]);
    if (op == TOY_REDUCE)
        pst_pipeline_here(asked, &places[work->stage][1]);
    return PST_OK;
}

START_TEST(test_here)
{
    pst_whereabouts place;
    asked = open_list(toy_named("1f1b", 3, 3), NULL, NULL);
    ck_assert_int_eq(pst_pipeline_here(asked, &place), 0);
    t.hook = ask_where;
    ck_assert_int_eq(pst_pipeline_run(asked, 0, 0, 7, NULL), PST_OK);
    for (int s = 0; s < 3; s++) {
        const pst_whereabouts *in_forward = &places[s][0], *in_reduce = &places[s][1];
        ck_assert_int_eq(in_forward->rank, s);
        ck_assert_int_eq(in_forward->stage, s);
        ck_assert_int_eq(in_forward->microbatch, 1);
        ck_assert_int_eq(in_forward->iteration, 7);
        ck_assert_str_eq(in_forward->name, "forward");
        ck_assert_int_eq(in_reduce->rank, s);
        ck_assert_int_eq(in_reduce->stage, s);
        ck_assert_int_eq(in_reduce->microbatch, -1);
        ck_assert_str_eq(in_reduce->name, "reduce");
    }
    pst_pipeline_destroy(asked);
}
END_TEST

static bool has_ended(pst_pipeline *pipeline)
{
    return atomic_load(&pipeline->ended) != PST__GOES_ON;
}

/* Hangs until the run is ended, whoever does it. */
static pst_status wait_for_the_end(void *user, int op, pst_work *work, pst_error *err)
{
    hang *h = user;
    (void)err;
    while (is_there(h, op, work) && !has_ended(h->pipeline))
        sched_yield();
    return PST_OK;
}

/* A callback that comes back after all: the pipeline can be used again. */
START_TEST(test_slow_callback_returns)
{
    hang h;
    pst_error err = PST_ERROR_INIT;
    init_hang(&h, (failure){PST_OP_FORWARD, 2, 1, false});
    pst_pipeline *pipeline =
        open_list(toy_named("1f1b", 3, 3), NULL,
                  &(pst_pipeline_options){.watchdog_seconds = 0.2});
    h.pipeline = pipeline;
    for (int i = 0; i < 2; i++) {
        t.hook = wait_for_the_end;
        t.user = &h;
        err = (pst_error)PST_ERROR_INIT;
        ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, i, &err), PST_ETIMEOUT);
        ck_assert_str_eq(err.text, "rank 2 is in stage 2, microbatch 1, forward (2F1), "
                                   "and no action has ended for 0.2 s, the watchdog's "
                                   "limit; 2 other ranks wait for it");
        ck_assert_ptr_nonnull(strstr(pst_pipeline_report(pipeline),
                                     "\nrank 2 has been in 2F1 (action 3 of 6) for "));
        t.hook = NULL;
        toy_run(&t, pipeline, 0, 3, i);
    }
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* The text for many ranks is one sentence all the same; the report has them all. */
START_TEST(test_timeout_of_many_ranks)
{
    hang h;
    pst_error err = PST_ERROR_INIT;
    init_hang(&h, (failure){PST_OP_FORWARD, 0, 0, false});
    pst_pipeline *pipeline = open_list(toy_named("1f1b", 60, 2), NULL,
                                       &(pst_pipeline_options){.watchdog_seconds = 1});
    h.pipeline = pipeline;
    t.hook = wait_for_the_end;
    t.user = &h;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, &err), PST_ETIMEOUT);
    ck_assert_str_eq(err.text, "rank 0 is in stage 0, microbatch 0, forward (0F0), and "
                               "no action has ended for 1 s, the watchdog's limit; 59 "
                               "other ranks wait for it");
    ck_assert_ptr_nonnull(
        strstr(pst_pipeline_report(pipeline), "\nrank 59 has waited in 59F0 "));
    t.hook = NULL;
    toy_run(&t, pipeline, 0, 2, 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_no_watchdog)
{
    static const double seconds[] = {-1, 1e12};
    pst_pipeline *pipeline =
        open_list(toy_named("1f1b", 3, 3), NULL,
                  &(pst_pipeline_options){.watchdog_seconds = seconds[_i]});
    for (int i = 0; i < 20; i++)
        toy_run(&t, pipeline, 0, 3, i);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- cancelling ---------------------------------------------------------- */

static void *cancel_from_here(void *argument)
{
    hang *h = argument;
    wait_for(&h->arrived);
    pst_pipeline_cancel(h->pipeline);
    sem_post(&h->go_on);
    return NULL;
}

START_TEST(test_cancel)
{
    static const failure places[] = {
        {PST_OP_FORWARD, 0, 0, false},        {PST_OP_FORWARD, 2, 2, false},
        {PST_OP_BACKWARD_INPUT, 1, 0, false}, {PST_OP_BACKWARD_WEIGHT, 0, 2, false},
        {TOY_REDUCE, 1, -1, false},           {TOY_STEP, 2, -1, false}};
    pst_pipeline *pipeline = open_list(toy_named("1f1b", 3, 3), NULL, NULL);
    for (int i = 0; i < 30; i++) {
        hang h;
        pthread_t thread;
        init_hang(&h, places[i % 6]);
        h.pipeline = pipeline;
        t.hook = hang_there;
        t.user = &h;
        ck_assert_int_eq(pthread_create(&thread, NULL, cancel_from_here, &h), 0);
        run_fails(pipeline, PST_ECALLBACK, "the run was cancelled");
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        t.hook = NULL;
        toy_run(&t, pipeline, 0, 3, i);
    }
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* Of an idle pipeline: nothing is cancelled, now or later. */
START_TEST(test_cancel_idle)
{
    pst_pipeline *pipeline = open_list(toy_named("gpipe", 2, 2), NULL, NULL);
    pst_pipeline_cancel(pipeline);
    toy_run(&t, pipeline, 0, 2, 0);
    pst_pipeline_cancel(pipeline);
    pst_pipeline_cancel(pipeline);
    toy_run(&t, pipeline, 0, 2, 1);
    pst_pipeline_destroy(pipeline);
}
END_TEST

static pst_pipeline *signalled;

static void on_signal(int number)
{
    (void)number;
    pst_pipeline_cancel(signalled);
}

static pst_status send_signal(void *user, int op, pst_work *work, pst_error *err)
{
    hang *h = user;
    if (is_there(h, op, work))
        pthread_kill(h->caller, SIGUSR1);
    return wait_for_the_end(user, op, work, err);
}

START_TEST(test_cancel_from_signal_handler)
{
    hang h;
    const struct sigaction action = {.sa_handler = on_signal};
    init_hang(&h, (failure){PST_OP_BACKWARD_INPUT, 1, 1, false});
    signalled = h.pipeline = open_list(toy_named("gpipe", 3, 3), NULL, NULL);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    for (int i = 0; i < 20; i++) {
        t.hook = send_signal;
        t.user = &h;
        run_fails(signalled, PST_ECALLBACK, "the run was cancelled");
        t.hook = NULL;
        toy_run(&t, signalled, 0, 3, i);
    }
    pst_pipeline_destroy(signalled);
}
END_TEST

/* At any moment, over and over: the run is cancelled or it is whole. */
typedef struct canceller {
    pst_pipeline *pipeline;
    pst_atomic_u32 stop;
} canceller;

static void *cancel_often(void *argument)
{
    canceller *c = argument;
    while (!atomic_load(&c->stop)) {
        pst_pipeline_cancel(c->pipeline);
        for (int i = 0; i < 50; i++)
            sched_yield();
    }
    return NULL;
}

START_TEST(test_cancel_at_any_moment)
{
    canceller c = {.stop = 0};
    pthread_t thread;
    c.pipeline = open_list(toy_named("1f1b", 4, 4), NULL,
                           &(pst_pipeline_options){.delay_seed = 3});
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_often, &c), 0);
    for (int i = 0; i < 300; i++) {
        const pst_status status = pst_pipeline_run(c.pipeline, 0, 0, i, NULL);
        ck_assert(status == PST_OK || status == PST_ECALLBACK);
        if (status == PST_OK)
            ck_assert(toy_is_right(&t, c.pipeline, 4, i));
    }
    atomic_store(&c.stop, 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    toy_run(&t, c.pipeline, 0, 4, 5);
    pst_pipeline_destroy(c.pipeline);
}
END_TEST

/* ---- ties, combine, step ------------------------------------------------- */

START_TEST(test_ties)
{
    const pst_tie_member apart[] = {{0, 0}, {2, 1}}, together[] = {{1, 0}, {1, 4}};
    const pst_tie ties[] = {{apart, 2, TOY_WIDTH - 1}, {together, 2, 3}};
    float gradient[3][TOY_WIDTH];
    pst_schedule *schedule = toy_named("1f1b", 3, 4);
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3});
    pst_pipeline *pipeline =
        toy_create(&t, NULL, &(pst_pipeline_options){.ties = ties, .tie_count = 2});
    const int program = toy_load(pipeline, schedule);
    ck_assert_int_eq(pst_pipeline_run(pipeline, program, 0, 6, NULL), PST_OK);
    for (int s = 0; s < 3; s++)
        toy_gradient(&t, s, 4, 6, gradient[s]);
    for (size_t k = 0; k + 1 < TOY_WIDTH; k++)
        gradient[0][k] = gradient[2][k + 1] = gradient[0][k] + gradient[2][k + 1];
    for (size_t k = 0; k < 3; k++)
        gradient[1][k] = gradient[1][k + 4] = gradient[1][k] + gradient[1][k + 4];
    for (int s = 0; s < 3; s++) {
        const void *found = pst_pipeline_gradients(pipeline, s);
        const void *stepped = pst_pipeline_optimizer(pipeline, s);
        ck_assert_int_eq(memcmp(found, gradient[s], sizeof gradient[s]), 0);
        ck_assert_int_eq(memcmp(stepped, gradient[s], sizeof gradient[s]), 0);
    }
    pst_schedule_destroy(schedule);
    pst_pipeline_destroy(pipeline);
}
END_TEST

typedef struct combiner {
    int calls;
    int64_t iteration;
    pthread_t thread;
    int step;
    int step_before;
    pst_status status;
    int reduced; /* in all stages, when it was called                          */
    int stepped;
} combiner;

static pst_status combine(void *user, int64_t iteration, int *step, pst_error *err)
{
    combiner *c = user;
    c->calls++;
    c->iteration = iteration;
    c->thread = pthread_self();
    c->step_before = *step;
    c->reduced = c->stepped = 0;
    for (int s = 0; s < t.shape.stages; s++) {
        c->reduced += t.self[s].reduced;
        c->stepped += t.self[s].stepped;
    }
    *step = c->step;
    return c->status == PST_OK ? PST_OK
                               : pst_error_set(err, c->status, "not like this");
}

static void run_combined(pst_pipeline *pipeline, combiner *c, pst_status status,
                         int stepped)
{
    const combiner before = *c;
    pst_error err = PST_ERROR_INIT;
    int now = 0;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 40 + c->calls, &err), status);
    ck_assert_str_eq(err.text, status == PST_OK ? "" : "not like this");
    ck_assert_int_eq(c->calls, before.calls + 1);
    ck_assert_int_eq(c->iteration, 40 + before.calls);
    ck_assert(pthread_equal(c->thread, pthread_self()));
    ck_assert_int_eq(c->step_before, 1);
    ck_assert_int_eq(c->reduced, 3 * c->calls);
    for (int s = 0; s < 3; s++)
        now += t.self[s].stepped;
    ck_assert_int_eq(now, c->stepped + 3 * stepped);
}

START_TEST(test_combine)
{
    combiner c = {.step = 1};
    pst_pipeline *pipeline =
        open_list(toy_named("1f1b", 3, 2), NULL,
                  &(pst_pipeline_options){.combine = combine, .combine_user = &c});
    run_combined(pipeline, &c, PST_OK, 1);
    c.step = 0;
    run_combined(pipeline, &c, PST_OK, 0);
    run_combined(pipeline, &c, PST_OK, 0);
    c.status = PST_ENUMERIC;
    run_combined(pipeline, &c, PST_ENUMERIC, 0);
    c.step = 1;
    run_combined(pipeline, &c, PST_ENUMERIC, 0);
    c.status = PST_OK;
    run_combined(pipeline, &c, PST_OK, 1);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* A list without backward asks nobody. */
START_TEST(test_combine_is_for_training)
{
    combiner c = {.step = 1};
    pst_pipeline *pipeline =
        open_list(toy_parse("0F0\n1F0\n"), NULL,
                  &(pst_pipeline_options){.combine = combine, .combine_user = &c});
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, NULL), PST_OK);
    ck_assert_int_eq(c.calls, 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* Stages without reduce, step, weights: what is left runs. */
START_TEST(test_missing_callbacks)
{
    pst_schedule *schedule = toy_named("1f1b", 2, 2);
    toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    for (int s = 0; s < 2; s++)
        t.stage[s].reduce = t.stage[s].step = t.stage[s].backward_weight = NULL;
    pst_pipeline *pipeline = toy_create(&t, NULL, NULL);
    toy_load(pipeline, schedule);
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, NULL), PST_OK);
    ck_assert(pst_pipeline_gradients(pipeline, 1)[0] == 0);
    pst_schedule_destroy(schedule);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- what may be asked, and the dump -------------------------------------- */

static void refuse(pst_pipeline *pipeline, int program, int microbatches,
                   const char *text)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_pipeline_run(pipeline, program, microbatches, 0, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text, text);
}

START_TEST(test_refused_runs)
{
    pst_pipeline *pipeline = open_list(toy_named("1f1b", 3, 4), NULL, NULL);
    refuse(pipeline, 1, 0, "program 1; 1 are loaded, from 0");
    refuse(pipeline, -1, 0, "program -1; 1 are loaded, from 0");
    refuse(pipeline, 0, 5, "5 microbatches; the schedule has 4");
    refuse(pipeline, 0, -1, "-1 microbatches; the schedule has 4");
    refuse(
        pipeline, 0, 3,
        "3 of 4 microbatches; a schedule with backward actions runs with all of them");
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 4, 0, NULL), PST_OK);
    toy_run(&t, pipeline, 0, 4, 1);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_dump)
{
    static const char whole[] = "rank 0 is idle\nrank 1 is idle\nrank 2 is idle\n";
    char text[64];
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    pst_pipeline *pipeline = toy_create(&t, NULL, NULL);
    ck_assert_uint_eq(pst_pipeline_dump(pipeline, text, sizeof text), strlen(whole));
    ck_assert_str_eq(text, whole);
    ck_assert_uint_eq(pst_pipeline_dump(pipeline, text, 8), strlen(whole));
    ck_assert_str_eq(text, "rank 0 ");
    ck_assert_uint_eq(pst_pipeline_dump(pipeline, NULL, 0), strlen(whole));
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- waits ---------------------------------------------------------------- */

static uint64_t spin_of(int ranks)
{
    toy_init(&t, &(toy_shape){.stages = ranks, .ranks = ranks, .exact = true});
    pst_pipeline *pipeline = toy_create(&t, NULL, NULL);
    const uint64_t spin_ns = pipeline->spin_ns;
    pst_pipeline_destroy(pipeline);
    return spin_ns;
}

/* Who waits leaves the CPU at once where another worker may need it. */
START_TEST(test_waits_block_beyond_the_budget)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    ck_assert_uint_gt(spin_of(1), 0);
    ck_assert_uint_eq(spin_of(pst_cpu_budget() + 1), 0);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        return;
    ck_assert_int_eq(pst_cpu_budget(), 1);
    ck_assert_uint_gt(spin_of(1), 0);
    ck_assert_uint_eq(spin_of(2), 0);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *made = tcase_create(name);
    tcase_set_timeout(made, 120);
    suite_add_tcase(suite, made);
    return made;
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("run");
    TCase *failing = new_case(suite, "failing");
    tcase_add_test(failing, test_failing_callbacks);
    tcase_add_test(failing, test_failing_slice);
    tcase_add_loop_test(failing, test_all_fail, 0, 5);
    tcase_add_test(failing, test_lengths_too_large);
    TCase *hanging = new_case(suite, "hanging");
    tcase_add_test(hanging, test_hang_in_forward);
    tcase_add_test(hanging, test_hang_in_backward);
    tcase_add_test(hanging, test_hang_in_reduce);
    tcase_add_test(hanging, test_hang_in_step);
    tcase_add_test(hanging, test_slow_callback_returns);
    tcase_add_test(hanging, test_timeout_of_many_ranks);
    tcase_add_test(hanging, test_failure_beside_a_hang);
    tcase_add_loop_test(hanging, test_no_watchdog, 0, 2);
    TCase *cancelled = new_case(suite, "cancelled");
    tcase_add_test(cancelled, test_cancel);
    tcase_add_test(cancelled, test_cancel_idle);
    tcase_add_test(cancelled, test_cancel_from_signal_handler);
    tcase_add_test(cancelled, test_cancel_at_any_moment);
    TCase *ends = new_case(suite, "ends");
    tcase_add_test(ends, test_ties);
    tcase_add_test(ends, test_combine);
    tcase_add_test(ends, test_combine_is_for_training);
    tcase_add_test(ends, test_missing_callbacks);
    tcase_add_test(ends, test_refused_runs);
    tcase_add_test(ends, test_dump);
    tcase_add_test(ends, test_here);
    tcase_add_test(new_case(suite, "waits"), test_waits_block_beyond_the_budget);
    return suite;
}
