/* SPDX-License-Identifier: BSD-3-Clause */
/* test_loopback.c - the transport of tests, and what all processes do over it. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stages/thread.h"
#include "tests/stages/loopback.h"
#include "tests/suite.h"

enum { MOST = 4, ROUNDS = 50, BIG = 100000 };

typedef struct process {
    pst_transport *transport;
    pst_thread thread;
    bool fails;
    pst_status status;
    pst_error err;
    int wrong;
} process;

/* Rounds of gather and broadcast, each from another process. */
static void *talk(void *argument)
{
    process *own = argument;
    pst_transport *t = own->transport;
    static const char reason[] = "process 1 has had enough";
    for (int round = 0; round < ROUNDS && own->status == PST_OK; round++) {
        const int mine = 100 * round + t->process;
        int all[MOST], data[2] = {-1, -1};
        own->status = pst_transport_gather(t, &mine, sizeof mine, all, &own->err);
        for (int i = 0; own->status == PST_OK && i < t->processes; i++)
            own->wrong += all[i] != 100 * round + i;
        const int from = round % t->processes;
        if (t->process == from)
            data[0] = data[1] = round;
        if (own->status == PST_OK)
            own->status =
                pst_transport_broadcast(t, from, data, sizeof data, &own->err);
        own->wrong += own->status == PST_OK && (data[0] != round || data[1] != round);
        if (own->fails && round == ROUNDS / 2)
            (t->fail)(t->self, reason); /* Check has a macro of this name */
    }
    return NULL;
}

static void run(loopback *net, process *all, int count)
{
    for (int i = 0; i < count; i++) {
        all[i].transport = loopback_end(net, i);
        ck_assert_int_eq(
            pst__thread_start(&all[i].thread, talk, &all[i], "process", NULL), PST_OK);
    }
    for (int i = 0; i < count; i++)
        pst__thread_join(&all[i].thread);
}

START_TEST(all_processes_see_what_each_gave)
{
    process all[MOST] = {{.fails = false}};
    loopback *net = loopback_create(_i);
    run(net, all, _i);
    for (int i = 0; i < _i; i++) {
        ck_assert_msg(all[i].status == PST_OK, "%s", all[i].err.text);
        ck_assert_int_eq(all[i].wrong, 0);
    }
    ck_assert_ptr_null(loopback_end(net, 0)->failure(loopback_end(net, 0)->self));
    loopback_destroy(net);
}
END_TEST

START_TEST(a_failure_ends_all_with_its_reason)
{
    process all[MOST] = {{.fails = false}, {.fails = true}};
    loopback *net = loopback_create(MOST);
    run(net, all, MOST);
    for (int i = 0; i < MOST; i++) {
        ck_assert_int_eq(all[i].status, PST_EPEER);
        ck_assert_str_eq(all[i].err.text, "process 1 has had enough");
        ck_assert_int_eq(all[i].wrong, 0);
    }
    loopback_destroy(net);
}
END_TEST

static void count_ends(pst_transfer *transfer)
{
    ++*(int *)transfer->user;
}

START_TEST(messages_of_a_tag_keep_their_order)
{
    static char data[BIG];
    int ends = 0, numbers[3] = {1, 2, 3}, got[3] = {0, 0, 0};
    pst_transfer sends[4], receives[4];
    loopback *net = loopback_create(2);
    pst_transport *a = loopback_end(net, 0), *b = loopback_end(net, 1);
    static const uint32_t tags[3] = {7, 5, 7};
    for (int i = 0; i < 3; i++) {
        sends[i] = (pst_transfer){
            .done = count_ends, .user = &ends, .header = {(unsigned char)i}};
        a->send(a->self, 1, tags[i], &numbers[i], sizeof(int), sizeof(int), &sends[i]);
    }
    ck_assert_int_eq(ends, 0);
    static const uint32_t asked[3] = {7, 7, 5};
    for (int i = 0; i < 3; i++) {
        receives[i] = (pst_transfer){.done = count_ends, .user = &ends};
        b->receive(b->self, 0, asked[i], &got[i], sizeof(int), &receives[i]);
    }
    ck_assert_int_eq(ends, 6);
    ck_assert_int_eq(got[0], 1);
    ck_assert_int_eq(got[1], 3);
    ck_assert_int_eq(got[2], 2);
    ck_assert_int_eq(receives[1].header[0], 2);
    ck_assert_uint_eq(receives[1].bytes, sizeof(int));

    /* To oneself, and with room to spare. */
    receives[3] = (pst_transfer){.done = count_ends, .user = &ends};
    sends[3] = receives[3];
    static char from[BIG - 1] = {[BIG - 2] = 9};
    a->receive(a->self, 0, 0, data, sizeof data, &receives[3]);
    a->send(a->self, 0, 0, from, sizeof from, sizeof data, &sends[3]);
    ck_assert_int_eq(ends, 8);
    ck_assert_uint_eq(receives[3].bytes, BIG - 1);
    ck_assert_int_eq(data[BIG - 2], 9);
    loopback_destroy(net);
}
END_TEST

START_TEST(what_is_too_large_fails_all_that_waits)
{
    int ends = 0, numbers[2] = {1, 2}, got[2] = {0, 0};
    pst_transfer send = {.done = count_ends, .user = &ends}, receive = send;
    pst_transfer other = send;
    loopback *net = loopback_create(3);
    pst_transport *a = loopback_end(net, 0), *b = loopback_end(net, 1);
    b->receive(b->self, 2, 0, got, sizeof got, &other);
    a->send(a->self, 1, 0, numbers, sizeof numbers, sizeof numbers, &send);
    b->receive(b->self, 0, 0, got, sizeof got[0], &receive);
    ck_assert_int_eq(ends, 3);
    ck_assert(send.failed && receive.failed && other.failed);
    ck_assert_str_eq(a->failure(a->self),
                     "loopback: a message is larger than its receiver has room for");
    ck_assert_int_eq(got[0], 0);
    loopback_destroy(net);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("loopback");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, all_processes_see_what_each_gave, 1, MOST + 1);
    tcase_add_test(all, a_failure_ends_all_with_its_reason);
    tcase_add_test(all, messages_of_a_tag_keep_their_order);
    tcase_add_test(all, what_is_too_large_fails_all_that_waits);
    suite_add_tcase(suite, all);
    return suite;
}
