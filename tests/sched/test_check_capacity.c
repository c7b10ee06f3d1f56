/* SPDX-License-Identifier: BSD-3-Clause */
/* test_check_capacity.c - how many messages channels must hold, against a plain twin.
 */
#include <stdlib.h>

#include <penstock/check.h>
#include <penstock/lower.h>
#include <penstock/registry.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

enum { MOST_RANKS = 5, MOST_TAGS = 1000 };

/* The walk's twin: a random rank of those that can goes on, until none can. */
typedef struct twin {
    const pst_schedule *schedule;
    size_t next[MOST_RANKS];
    size_t lies[MOST_RANKS][MOST_RANKS];
    unsigned char sent[MOST_TAGS];
    int capacity;
} twin;

/* Let `rank` send or receive; 0: it has to wait. What an action needs of its own rank
 * stands before it. */
static int pass_message(twin *w, int rank, pst_action a)
{
    const int forward = a.op == PST_OP_SEND_FORWARD || a.op == PST_OP_RECEIVE_FORWARD;
    const int64_t tag = pst_schedule_tag(w->schedule, a);
    const int back = forward ? pst_schedule_previous_stage(w->schedule, a.stage)
                             : pst_schedule_next_stage(w->schedule, a.stage);
    const int on = forward ? pst_schedule_next_stage(w->schedule, a.stage)
                           : pst_schedule_previous_stage(w->schedule, a.stage);
    size_t count;
    if (a.op == PST_OP_RECEIVE_FORWARD || a.op == PST_OP_RECEIVE_BACKWARD) {
        if (w->sent[tag])
            w->lies[pst_schedule_rank_of(w->schedule, back)][rank]--;
        return w->sent[tag];
    }
    const int other = pst_schedule_rank_of(w->schedule, on);
    const pst_action *row = pst_schedule_row(w->schedule, other, &count);
    const size_t at = w->next[other];
    if (w->lies[rank][other] >= (size_t)w->capacity &&
        (at == count || pst_schedule_tag(w->schedule, row[at]) != tag))
        return 0;
    w->lies[rank][other]++;
    w->sent[tag] = 1;
    return 1;
}

static int twin_ends(const pst_schedule *placed, int capacity)
{
    static twin w;
    const int ranks = pst_schedule_ranks(placed);
    int idle = 0;
    size_t left = 0;
    w = (twin){.schedule = placed, .capacity = capacity};
    ck_assert_int_le(ranks, MOST_RANKS);
    for (int rank = rand() % ranks; idle < ranks; rank = (rank + 1) % ranks) {
        size_t count, turns = 1 + (size_t)rand() % 4;
        const pst_action *row = pst_schedule_row(placed, rank, &count);
        for (idle++; turns > 0 && w.next[rank] < count; turns--) {
            const pst_action a = row[w.next[rank]];
            if (pst_schedule_tag(placed, a) >= 0 && !pass_message(&w, rank, a))
                break;
            w.next[rank]++;
            idle = 0;
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        size_t count;
        pst_schedule_row(placed, rank, &count);
        left += count - w.next[rank];
    }
    return left == 0;
}

static void compare_capacity(const char *name, const pst_shape *shape)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL, *computing, *placed;
    int least = -1;
    if (pst_schedule_create(NULL, name, shape, &schedule, NULL) != PST_OK)
        return;
    ck_assert_int_eq(pst_schedule_compute_only(NULL, schedule, &computing, &err), 0);
    ck_assert_int_eq(
        pst_schedule_lower_as(NULL, computing, PST_LOWER_IN_TIME, &placed, &err), 0);
    ck_assert_int_eq(pst_schedule_least_capacity(NULL, schedule, &least, &err), PST_OK);
    ck_assert_int_ge(least, 0);
    for (int c = 0; c <= least + 1; c++) {
        const int ends = twin_ends(placed, c);
        const pst_status found = pst_schedule_check_capacity(NULL, schedule, c, NULL);
        ck_assert_msg(ends == (c >= least) && (found == PST_OK) == ends,
                      "%s p=%d v=%d m=%d: stated %d, with %d %s", name, shape->ranks,
                      shape->chunks, shape->microbatches, least, c,
                      ends ? "runs" : "is stuck");
    }
    pst_schedule_destroy(placed);
    pst_schedule_destroy(computing);
    pst_schedule_destroy(schedule);
}

/* Loop variable: the kind. */
START_TEST(the_least_capacity_of_every_kind)
{
    const char *name = pst_schedule_kind_at((size_t)_i)->name;
    for (int p = 1; p <= 5; p++)
        for (int v = 1; v <= 3; v++)
            for (int m = 1; m <= 10; m++)
                compare_capacity(
                    name, &(pst_shape){.ranks = p, .chunks = v, .microbatches = m});
}
END_TEST

/* Two messages overtake each other: the channel must hold one of them. */
static const char *const crossing = "0F0,0F1,0SEND_F0,0SEND_F1\n"
                                    "1RECV_F1,1F1,1RECV_F0,1F0\n";

START_TEST(a_capacity_that_is_not_enough)
{
    static const struct {
        const char *list;
        int capacity;
        const char *text;
    } rows[] = {
        {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
         "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
         0,
         "channel capacity 0: deadlock: rank 0 waits in 0SEND_F1 (cell 4) for 1RECV_F1 "
         "of rank 1, rank 1 waits in 1SEND_B0 (cell 4) for 0RECV_B0 of rank 0; a "
         "capacity of 1 would do"},
        {crossing, 0,
         "channel capacity 0: deadlock: rank 0 waits in 0SEND_F0 (cell 3) for 1RECV_F0 "
         "of rank 1, rank 1 waits in 1RECV_F1 (cell 1) for 0SEND_F1 of rank 0; a "
         "capacity of 1 would do"},
        /* What makes room is the receive of the message that lies there. */
        {"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B2,0B2,0RECV_B1,0B1,0RECV_B0,"
         "0B0\n"
         "1RECV_F2,1F2,1B2,1SEND_B2,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,"
         "1SEND_B1\n",
         1,
         "channel capacity 1: deadlock: rank 0 waits in 0SEND_F1 (cell 4) for 1RECV_F0 "
         "of rank 1, rank 1 waits in 1RECV_F2 (cell 1) for 0SEND_F2 of rank 0; a "
         "capacity of 2 would do"},
    };
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse(rows[_i].list);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_OK);
    pst_schedule_check_capacity(NULL, schedule, rows[_i].capacity, &err);
    assert_error(&err, PST_EDEADLOCK, "t.csv", 1, rows[_i].text);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(a_capacity_below_zero)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse("0F0\n");
    pst_schedule_check_capacity(NULL, schedule, -1, &err);
    assert_error(&err, PST_EINVAL, "", 0,
                 "a channel capacity of -1; 0 or more would work");
    pst_schedule_destroy(schedule);
}
END_TEST

/* No capacity helps a list that is not valid. */
START_TEST(a_list_that_no_capacity_helps)
{
    pst_error err = PST_ERROR_INIT;
    int least = -1;
    pst_schedule *schedule = parse("0RECV_B0,0B0,0F0,0SEND_F0\n"
                                   "1RECV_F0,1F0,1B0,1SEND_B0\n");
    ck_assert_int_eq(pst_schedule_least_capacity(NULL, schedule, &least, &err),
                     PST_EDEADLOCK);
    ck_assert_int_eq(least, -1);
    pst_schedule_destroy(schedule);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("check_capacity");
    int kinds = 0;
    while (pst_schedule_kind_at((size_t)kinds) != NULL)
        kinds++;
    TCase *capacity = tcase_create("capacity");
    tcase_set_timeout(capacity, 120);
    tcase_add_loop_test(capacity, the_least_capacity_of_every_kind, 0, kinds);
    tcase_add_loop_test(capacity, a_capacity_that_is_not_enough, 0, 3);
    tcase_add_test(capacity, a_capacity_below_zero);
    tcase_add_test(capacity, a_list_that_no_capacity_helps);
    suite_add_tcase(suite, capacity);
    return suite;
}
