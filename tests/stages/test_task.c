/* SPDX-License-Identifier: BSD-3-Clause */
/* test_task.c - a function on a thread of its own is polled and waited for. */
#include <penstock/task.h>

#include "stages/thread.h"
#include "tests/suite.h"

/* A function that waits until it may go. */
typedef struct gate {
    pst_monitor monitor;
    int open;
    int passed;
} gate;

static void pass(void *argument)
{
    gate *own = argument;
    pst__monitor_enter(&own->monitor);
    while (!own->open)
        pst__monitor_sleep(&own->monitor, 1000000000);
    pst__monitor_leave(&own->monitor);
    own->passed = 1; /* plain: done and wait are what orders it */
}

static void let_go(gate *own)
{
    pst__monitor_enter(&own->monitor);
    own->open = 1;
    pst__monitor_wake(&own->monitor);
    pst__monitor_leave(&own->monitor);
}

static pst_task *start(gate *own)
{
    pst_error err = PST_ERROR_INIT;
    pst_task *task;
    pst__monitor_init(&own->monitor);
    ck_assert_msg(pst_task_start(NULL, "gate", pass, own, &task, &err) == PST_OK, "%s",
                  err.text);
    return task;
}

START_TEST(a_task_is_done_when_its_function_has_returned)
{
    gate own = {.open = 0};
    pst_task *task = start(&own);
    ck_assert_int_eq(pst_task_done(task), 0);
    let_go(&own);
    while (!pst_task_done(task))
        pst__pause();
    ck_assert_int_eq(own.passed, 1);
    pst_task_wait(task);
    pst__monitor_fini(&own.monitor);
}
END_TEST

START_TEST(a_wait_is_for_the_function)
{
    gate own = {.open = 0};
    pst_task *task = start(&own);
    let_go(&own);
    pst_task_wait(task);
    ck_assert_int_eq(own.passed, 1);
    pst__monitor_fini(&own.monitor);
    pst_task_wait(NULL);
}
END_TEST

static void *no_memory(void *user, size_t bytes, size_t alignment)
{
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}

static void no_release(void *user, void *memory)
{
    (void)user, (void)memory;
}

START_TEST(no_memory_is_an_error)
{
    const pst_env env = {.allocate = no_memory, .release = no_release};
    gate own = {.open = 1};
    pst_task *task = NULL;
    ck_assert_int_eq(pst_task_start(&env, "gate", pass, &own, &task, NULL), PST_ENOMEM);
    ck_assert_ptr_null(task);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("task");
    TCase *all = tcase_create("all");
    tcase_add_test(all, a_task_is_done_when_its_function_has_returned);
    tcase_add_test(all, a_wait_is_for_the_function);
    tcase_add_test(all, no_memory_is_an_error);
    suite_add_tcase(suite, all);
    return suite;
}
