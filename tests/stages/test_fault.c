/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_fault.c - faults that strike where and when they are meant to, and only there;
 * NaN and infinities that are found where they come out first.
 */
#include <check.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/fault.h>
#include <penstock/finite.h>

#include "stages/thread.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

static toy t;

/* ---- as text ------------------------------------------------------------------ */

static const struct {
    const char *text;
    pst_fault fault;
} understood[] = {
    {"stage=2,mb=5,op=F,kind=error",
     {PST_FAULT_FORWARD, PST_FAULT_ERROR, 2, 5, 0, 0.5}},
    {"kind=abort,op=B,mb=0,stage=0",
     {PST_FAULT_BACKWARD_INPUT, PST_FAULT_ABORT, 0, 0, 0, 0.5}},
    {"stage=1,mb=1,op=I,kind=exit,step=7",
     {PST_FAULT_BACKWARD_INPUT, PST_FAULT_EXIT, 1, 1, 7, 0.5}},
    {"stage=1,mb=1,op=W,kind=segv",
     {PST_FAULT_BACKWARD_WEIGHT, PST_FAULT_SEGV, 1, 1, 0, 0.5}},
    {"stage=3,op=reduce,kind=hang", {PST_FAULT_REDUCE, PST_FAULT_HANG, 3, -1, 0, 0.5}},
    {"stage=3,op=step,kind=nan", {PST_FAULT_STEP, PST_FAULT_NAN, 3, -1, 0, 0.5}},
    {"op=data,kind=slow,seconds=1.25",
     {PST_FAULT_DATA, PST_FAULT_SLOW, -1, -1, 0, 1.25}},
};

START_TEST(test_understood)
{
    pst_error err = PST_ERROR_INIT;
    pst_fault found;
    const pst_fault *wanted = &understood[_i].fault;
    ck_assert_msg(pst_fault_parse(understood[_i].text, &found, &err) == PST_OK, "%s",
                  err.text);
    ck_assert_int_eq(found.op, wanted->op);
    ck_assert_int_eq(found.kind, wanted->kind);
    ck_assert_int_eq(found.stage, wanted->stage);
    ck_assert_int_eq(found.microbatch, wanted->microbatch);
    ck_assert_int_eq(found.step, wanted->step);
    ck_assert_double_eq(found.seconds, wanted->seconds);
}
END_TEST

#define FORM                                                                           \
    ": a fault is made of stage=, mb=, op=, step=, kind= and seconds=, with commas "   \
    "between"

static const struct {
    const char *text;
    const char *sentence;
} not_understood[] = {
    {"", "''" FORM},
    {"stage", "'stage'" FORM},
    {"=2", "'=2'" FORM},
    {"stages=2", "'stages=2'" FORM},
    {"stage=2,,op=F", "''" FORM},
    {"stage=2,mb=1,op=F,kind=error,", "''" FORM},
    {"stage=2 mb=1", "stage '2 mb=1': must be a whole number from 0 to 65534"},
    {"stage=-1", "stage '-1': must be a whole number from 0 to 65534"},
    {"stage=", "stage '': must be a whole number from 0 to 65534"},
    {"mb=2147483647", "mb '2147483647': must be a whole number from 0 to 2147483646"},
    {"mb=99999999999999999999",
     "mb '99999999999999999999': must be a whole number from 0 to 2147483646"},
    {"step=0", "step '0': must be a whole number from 1 to 1000000000000000"},
    {"op=X", "op 'X': must be one of F, B, I, W, reduce, step, data"},
    {"op=f", "op 'f': must be one of F, B, I, W, reduce, step, data"},
    {"kind=boom",
     "kind 'boom': must be one of error, abort, exit, segv, hang, nan, slow, "
     "overflow"},
    {"seconds=nan", "seconds 'nan': must be a number from 0 to 1e9"},
    {"seconds=-1", "seconds '-1': must be a number from 0 to 1e9"},
    {"seconds=1s", "seconds '1s': must be a number from 0 to 1e9"},
    {"stage=1,stage=1", "stage stands there twice"},
    {"kind=error", "op= is missing"},
    {"op=F,stage=1,mb=1", "kind= is missing"},
    {"op=F,mb=1,kind=error", "stage= is missing; op=F has one"},
    {"op=B,stage=1,kind=error", "mb= is missing; op=B has one"},
    {"op=step,stage=1,mb=1,kind=error", "mb= is one too many; op=step has none"},
    {"op=data,stage=1,kind=error", "stage= is one too many; op=data has none"},
    {"op=data,kind=error,seconds=1",
     "seconds= is one too many; only kind=slow has them"},
    {"op=data,kind=nan", "kind=nan: op=data reads whole numbers, which cannot be NaN"},
};

START_TEST(test_not_understood)
{
    pst_error err = PST_ERROR_INIT;
    pst_fault found;
    ck_assert_int_eq(pst_fault_parse(not_understood[_i].text, &found, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text, not_understood[_i].sentence);
}
END_TEST

/* ---- what happens ------------------------------------------------------------- */

enum { CAME_BACK = 77 };

/* How a process ends in which that happens. */
static int end_of(pst_fault_kind kind)
{
    int status;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        pst_fault_strike(&(pst_fault){.kind = kind}, NULL);
        _exit(CAME_BACK);
    }
    if (kind == PST_FAULT_HANG) {
        usleep(200000);
        ck_assert_int_eq(waitpid(child, &status, WNOHANG), 0);
        kill(child, SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

START_TEST(test_ends_of_processes)
{
    int status = end_of(PST_FAULT_EXIT);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = end_of(PST_FAULT_ABORT);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = end_of(PST_FAULT_HANG);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = end_of(PST_FAULT_SEGV); /* a sanitizer makes an exit of it */
    ck_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV
                                  : WEXITSTATUS(status) != CAME_BACK);
    status = end_of(PST_FAULT_NAN);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == CAME_BACK);
}
END_TEST

/* ---- where and when ----------------------------------------------------------- */

static pst_faults *faults;

/* A list for three stages with these faults in them, and a look at all they make. */
static pst_pipeline *open_faulty(pst_schedule *schedule, const pst_fault *plan,
                                 int count, pst_finite **finite)
{
    pst_error err = PST_ERROR_INIT;
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    ck_assert_msg(pst_faults_create(NULL, plan, count, t.stage, 3, &faults, &err) ==
                      PST_OK,
                  "%s", err.text);
    if (finite)
        ck_assert_int_eq(pst_finite_create(NULL, t.stage, 3, finite, NULL), PST_OK);
    pst_pipeline *pipeline = toy_create(&t, NULL, NULL);
    ck_assert_int_eq(toy_load(pipeline, schedule), 0);
    pst_schedule_destroy(schedule);
    return pipeline;
}

static const struct {
    const char *schedule;
    pst_fault fault;
    const char *text;
} places[] = {
    {"1f1b",
     {PST_FAULT_FORWARD, PST_FAULT_ERROR, 1, 2, 0, 0},
     "stage 1, microbatch 2, forward (1F2): an error on purpose"},
    {"1f1b",
     {PST_FAULT_BACKWARD_INPUT, PST_FAULT_ERROR, 2, 0, 0, 0},
     "stage 2, microbatch 0, backward-input (2B0): an error on purpose"},
    {"1f1b",
     {PST_FAULT_BACKWARD_WEIGHT, PST_FAULT_ERROR, 0, 3, 0, 0},
     "stage 0, microbatch 3, backward-weight (0B3): an error on purpose"},
    {"zb-h1",
     {PST_FAULT_BACKWARD_INPUT, PST_FAULT_ERROR, 1, 1, 0, 0},
     "stage 1, microbatch 1, backward-input (1I1): an error on purpose"},
    {"zb-h1",
     {PST_FAULT_BACKWARD_WEIGHT, PST_FAULT_ERROR, 2, 3, 0, 0},
     "stage 2, microbatch 3, backward-weight (2W3): an error on purpose"},
    {"gpipe",
     {PST_FAULT_REDUCE, PST_FAULT_ERROR, 1, -1, 0, 0},
     "stage 1, reduce: an error on purpose"},
    {"gpipe",
     {PST_FAULT_STEP, PST_FAULT_ERROR, 2, -1, 0, 0},
     "stage 2, step: an error on purpose"},
};

/* Once, there, and then everything is as it should be. */
START_TEST(test_error_in_each_place)
{
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline =
        open_faulty(toy_named(places[_i].schedule, 3, 4), &places[_i].fault, 1, NULL);
    ck_assert_int_eq(pst_faults_left(faults), 1);
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, &err), PST_ECALLBACK);
    ck_assert_str_eq(err.text, places[_i].text);
    ck_assert_int_eq(pst_faults_left(faults), 0);
    toy_run(&t, pipeline, 0, 4, 1);
    pst_pipeline_destroy(pipeline);
    pst_faults_destroy(faults);
}
END_TEST

/* In its step and no other; two in one stage; those of the data reader are not ours. */
START_TEST(test_steps)
{
    const pst_fault plan[] = {{PST_FAULT_FORWARD, PST_FAULT_ERROR, 1, 0, 3, 0},
                              {PST_FAULT_DATA, PST_FAULT_ERROR, -1, -1, 0, 0},
                              {PST_FAULT_FORWARD, PST_FAULT_ERROR, 1, 0, 5, 0}};
    pst_pipeline *pipeline = open_faulty(toy_named("1f1b", 3, 2), plan, 3, NULL);
    ck_assert_int_eq(pst_faults_left(faults), 2);
    for (int step = 1; step <= 6; step++)
        if (step == 3 || step == 5)
            ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, step - 1, NULL),
                             PST_ECALLBACK);
        else
            toy_run(&t, pipeline, 0, 2, step - 1);
    ck_assert_int_eq(pst_faults_left(faults), 0);
    toy_run(&t, pipeline, 0, 2, 2);
    pst_pipeline_destroy(pipeline);
    pst_faults_destroy(faults);
}
END_TEST

START_TEST(test_not_in_forward_only)
{
    const pst_fault plan = {PST_FAULT_FORWARD, PST_FAULT_ERROR, 1, 0, 0, 0};
    pst_pipeline *pipeline = open_faulty(toy_parse("0F0\n1F0\n2F0\n"), &plan, 1, NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, i, NULL), PST_OK);
    ck_assert_int_eq(pst_faults_left(faults), 1);
    pst_pipeline_destroy(pipeline);
    pst_faults_destroy(faults);
}
END_TEST

START_TEST(test_slow)
{
    const pst_fault plan = {PST_FAULT_BACKWARD_INPUT, PST_FAULT_SLOW, 1, 0, 0, 0.2};
    pst_pipeline *pipeline = open_faulty(toy_named("1f1b", 3, 3), &plan, 1, NULL);
    const uint64_t start = pst__now_ns();
    toy_run(&t, pipeline, 0, 3, 0);
    ck_assert_uint_ge(pst__now_ns() - start, 200000000);
    pst_pipeline_destroy(pipeline);
    pst_faults_destroy(faults);
}
END_TEST

static const struct {
    const char *schedule;
    pst_fault fault;
    const char *text;
} fillings[] = {
    {"1f1b",
     {PST_FAULT_FORWARD, PST_FAULT_NAN, 1, 2, 0, 0},
     "stage 1, microbatch 2, forward (1F2): its output is not finite: element 0 of 8 "
     "is NaN"},
    {"1f1b",
     {PST_FAULT_BACKWARD_INPUT, PST_FAULT_NAN, 1, 0, 0, 0},
     "stage 1, microbatch 0, backward-input (1B0): its input gradient is not finite: "
     "element 0 of 8 is NaN"},
    {"zb-h1",
     {PST_FAULT_BACKWARD_WEIGHT, PST_FAULT_NAN, 2, 3, 0, 0},
     "stage 2, microbatch 3, backward-weight (2W3): its gradient is not finite: "
     "element 0 of 8 is NaN"},
};

/* What is filled is found in the same callback. */
START_TEST(test_nan_in_each_place)
{
    pst_error err = PST_ERROR_INIT;
    pst_finite *finite;
    pst_pipeline *pipeline = open_faulty(toy_named(fillings[_i].schedule, 3, 4),
                                         &fillings[_i].fault, 1, &finite);
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, &err), PST_ENUMERIC);
    ck_assert_str_eq(err.text, fillings[_i].text);
    toy_run(&t, pipeline, 0, 4, 1);
    pst_pipeline_destroy(pipeline);
    pst_finite_destroy(finite);
    pst_faults_destroy(faults);
}
END_TEST

/* At the ends of an iteration, and where there is no output: seen in the numbers. */
START_TEST(test_nan_at_the_ends)
{
    const pst_fault plan[] = {{PST_FAULT_REDUCE, PST_FAULT_NAN, 0, -1, 0, 0},
                              {PST_FAULT_STEP, PST_FAULT_NAN, 1, -1, 0, 0},
                              {PST_FAULT_FORWARD, PST_FAULT_NAN, 2, 1, 2, 0}};
    pst_pipeline *pipeline = open_faulty(toy_named("gpipe", 3, 2), plan, 3, NULL);
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, NULL), PST_OK);
    ck_assert(isnan(pst_pipeline_gradients(pipeline, 0)[0]));
    ck_assert(isnan(((float *)pst_pipeline_weights(pipeline, 1))[0]));
    ck_assert_int_eq(pst_faults_left(faults), 1);
    pst_pipeline_destroy(pipeline);
    pst_faults_destroy(faults);
}
END_TEST

static const struct {
    pst_fault fault;
    const char *text;
} refused[] = {
    {{PST_FAULT_FORWARD, PST_FAULT_ERROR, 3, 0, 0, 0},
     "a fault in stage 3; the stages are 0 to 2"},
    {{PST_FAULT_BACKWARD_WEIGHT, PST_FAULT_ERROR, 1, 0, 0, 0},
     "a fault in the backward-weight of stage 1, which has none"},
    {{PST_FAULT_STEP, PST_FAULT_ERROR, 1, -1, 0, 0},
     "a fault in the step of stage 1, which has none"},
    {{PST_FAULT_BACKWARD_INPUT, PST_FAULT_NAN, 0, 0, 0, 0},
     "a NaN in the backward-input of stage 0, which makes nothing there"},
};

START_TEST(test_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_stage before[3];
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3});
    t.stage[1].backward_weight = t.stage[1].step = NULL;
    t.stage[0].kept_bytes = 0;
    memcpy(before, t.stage, sizeof before);
    ck_assert_int_eq(
        pst_faults_create(NULL, &refused[_i].fault, 1, t.stage, 3, &faults, &err),
        PST_EINVAL);
    ck_assert_str_eq(err.text, refused[_i].text);
    ck_assert_mem_eq(before, t.stage, sizeof before);
}
END_TEST

/* ---- NaN and infinities of one's own -------------------------------------------- */

typedef struct spoiler {
    int op;
    int stage;
    float value;
} spoiler;

static pst_status spoil(void *user, int op, pst_work *work, pst_error *err)
{
    const spoiler *s = user;
    (void)err;
    if (op != s->op || work->stage != s->stage || work->microbatch != 1)
        return PST_OK;
    float *product = op == PST_OP_FORWARD          ? work->output
                     : op == PST_OP_BACKWARD_INPUT ? work->input_grad
                                                   : work->gradients;
    product[5] = s->value;
    return PST_OK;
}

static const struct {
    spoiler spoiler;
    const char *text;
} spoilt[] = {
    {{PST_OP_FORWARD, 0, INFINITY},
     "stage 0, microbatch 1, forward (0F1): its output is not finite: element 5 of 8 "
     "is "
     "infinite"},
    {{PST_OP_BACKWARD_INPUT, 2, -INFINITY},
     "stage 2, microbatch 1, backward-input (2B1): its input gradient is not finite: "
     "element 5 of 8 is infinite"},
    {{PST_OP_BACKWARD_WEIGHT, 1, NAN},
     "stage 1, microbatch 1, backward-weight (1B1): its gradient is not finite: "
     "element "
     "5 of 8 is NaN"},
};

START_TEST(test_not_finite)
{
    pst_error err = PST_ERROR_INIT;
    pst_finite *finite;
    spoiler s = spoilt[_i].spoiler;
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    ck_assert_int_eq(pst_finite_create(NULL, t.stage, 3, &finite, NULL), PST_OK);
    pst_pipeline *pipeline = toy_create(&t, NULL, NULL);
    pst_schedule *schedule = toy_named("1f1b", 3, 3);
    toy_load(pipeline, schedule);
    pst_schedule_destroy(schedule);
    toy_run(&t, pipeline, 0, 3, 0);
    t.hook = spoil;
    t.user = &s;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 1, &err), PST_ENUMERIC);
    ck_assert_str_eq(err.text, spoilt[_i].text);
    s.value = s.op == PST_OP_BACKWARD_WEIGHT ? FLT_MAX : FLT_MIN / 4;
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 1, NULL), PST_OK);
    pst_pipeline_destroy(pipeline);
    pst_finite_destroy(finite);
}
END_TEST

START_TEST(test_little_memory)
{
    const pst_fault plan = {PST_FAULT_FORWARD, PST_FAULT_ERROR, 1, 0, 0, 0};
    toy_env memory;
    pst_finite *finite = NULL;
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3});
    const pst_stage_function forward = t.stage[1].forward;
    for (int at = 1; at <= 3; at++) {
        toy_env_init(&memory);
        memory.fail_at = at;
        ck_assert_int_eq(
            pst_faults_create(&memory.env, &plan, 1, t.stage, 3, &faults, NULL),
            PST_ENOMEM);
        ck_assert_int_eq(memory.live, 0);
    }
    for (int at = 1; at <= 2; at++) {
        toy_env_init(&memory);
        memory.fail_at = at;
        ck_assert_int_eq(pst_finite_create(&memory.env, t.stage, 3, &finite, NULL),
                         PST_ENOMEM);
        ck_assert_int_eq(memory.live, 0);
    }
    ck_assert(t.stage[1].forward == forward);
    toy_env_init(&memory);
    ck_assert_int_eq(
        pst_faults_create(&memory.env, &plan, 1, t.stage, 3, &faults, NULL), PST_OK);
    ck_assert_int_eq(pst_finite_create(&memory.env, t.stage, 3, &finite, NULL), PST_OK);
    pst_finite_destroy(finite);
    pst_faults_destroy(faults);
    ck_assert_int_eq(memory.live, 0);
    pst_finite_destroy(NULL);
    pst_faults_destroy(NULL);
}
END_TEST

#define LOOP(tcase, test, table)                                                       \
    tcase_add_loop_test(tcase, test, 0, sizeof(table) / sizeof *(table))

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("fault");
    TCase *text = tcase_create("text");
    LOOP(text, test_understood, understood);
    LOOP(text, test_not_understood, not_understood);
    suite_add_tcase(suite, text);
    TCase *strikes = tcase_create("strikes");
    tcase_set_timeout(strikes, 60);
    tcase_add_test(strikes, test_ends_of_processes);
    LOOP(strikes, test_error_in_each_place, places);
    tcase_add_test(strikes, test_steps);
    tcase_add_test(strikes, test_not_in_forward_only);
    tcase_add_test(strikes, test_slow);
    LOOP(strikes, test_nan_in_each_place, fillings);
    tcase_add_test(strikes, test_nan_at_the_ends);
    LOOP(strikes, test_refused, refused);
    LOOP(strikes, test_not_finite, spoilt);
    tcase_add_test(strikes, test_little_memory);
    suite_add_tcase(suite, strikes);
    return suite;
}
