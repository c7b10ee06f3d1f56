/* SPDX-License-Identifier: BSD-3-Clause */
/* test_simulate.c - times, idle time and peaks, against cases done by hand. */
#include <math.h>
#include <string.h>

#include <penstock/lower.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/simulated.h"
#include "tests/sched/support.h"
#include "tests/suite.h"

#define NEAR 1e-12

/* ---- times by hand ------------------------------------------------------ */

START_TEST(unit_costs)
{
    pst_schedule *schedule = make("gpipe", 2, 2);
    pst_simulation *s = simulate(schedule, NULL);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:5-7 0B1:7-9");
    assert_times(schedule, s, 1, "1F0:1-2 1F1:2-3 1B0:3-5 1B1:5-7");
    ck_assert_int_eq(s->ranks, 2);
    ck_assert_int_eq(s->stages, 2);
    ck_assert_int_eq(s->microbatches, 2);
    ck_assert_int_eq(s->iterations, 1);
    ck_assert_double_eq(s->makespan, 9);
    ck_assert_double_eq(s->longest_rank, 9);
    ck_assert_double_eq(s->ideal, 6);
    ck_assert_double_eq_tol(s->bubble.of_makespan, 1.0 / 3, NEAR);
    ck_assert_double_eq_tol(s->bubble.of_ideal, 0.5, NEAR);
    ck_assert_double_eq_tol(s->bubble.longest_rank, 1.0 / 3, NEAR);
    ck_assert_double_eq(s->busy[0], 6);
    ck_assert_double_eq(s->busy[1], 6);
    ck_assert_int_eq(s->peak_activations[0], 2);
    ck_assert_int_eq(s->peak_activations[1], 2);
    ck_assert_int_eq(s->max_queue_depth, 1);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Stage 1 is the slow one; F 1 and 4, I 2 and 3, W 0.5 and 1. */
static const double forward[] = {1, 4}, input[] = {2, 3}, weight[] = {0.5, 1};

START_TEST(unequal_costs)
{
    pst_costs costs = {
        .forward = forward, .backward_input = input, .backward_weight = weight};
    pst_schedule *schedule = make("1f1b", 2, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:9-11.5 0B1:17-19.5");
    assert_times(schedule, s, 1, "1F0:1-5 1B0:5-9 1F1:9-13 1B1:13-17");
    ck_assert_double_eq(s->makespan, 19.5);
    ck_assert_double_eq(s->busy[0], 7);
    ck_assert_double_eq(s->busy[1], 16);
    ck_assert_double_eq(s->ideal, 16);
    ck_assert_double_eq(s->longest_rank, 19.5);
    ck_assert_double_eq_tol(s->bubble.of_makespan, 1 - 16 / 19.5, NEAR);
    ck_assert_double_eq_tol(s->bubble.of_ideal, 19.5 / 16 - 1, NEAR);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* The gradient leaves when I ends; W waits for nobody else. */
/* F of microbatch i takes i + 1, B 10. */
static double by_microbatch(void *user, pst_action action)
{
    ++*(int *)user;
    return action.op == PST_OP_FORWARD ? action.microbatch + 1 : 10;
}

START_TEST(durations_of_single_actions)
{
    int asked = 0;
    const pst_costs costs = {.duration = by_microbatch, .duration_user = &asked};
    pst_schedule *schedule = make("gpipe", 2, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-3 0B0:15-25 0B1:25-35");
    assert_times(schedule, s, 1, "1F0:1-2 1F1:3-5 1B0:5-15 1B1:15-25");
    ck_assert_int_eq(asked, 8);
    ck_assert_double_eq(s->busy[0], 23);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(split_backward)
{
    pst_costs costs = {
        .forward = forward, .backward_input = input, .backward_weight = weight};
    pst_schedule *schedule = parse("0F0,0I0,0W0\n1F0,1I0,1W0\n");
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0I0:8-10 0W0:10-10.5");
    assert_times(schedule, s, 1, "1F0:1-5 1I0:5-8 1W0:8-9");
    ck_assert_double_eq(s->makespan, 10.5);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(latency)
{
    pst_costs costs = {.latency = 0.5};
    pst_schedule *schedule = make("1f1b", 2, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:5-7 0B1:8-10");
    assert_times(schedule, s, 1, "1F0:1.5-2.5 1B0:2.5-4.5 1F1:4.5-5.5 1B1:5.5-7.5");
    ck_assert_double_eq(s->makespan, 10);
    ck_assert_double_eq(s->longest_rank, 10);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* 100 bytes at 50 a unit are 2 units more on each hop. */
START_TEST(bandwidth)
{
    pst_costs costs = {.latency = 1, .bandwidth = 50, .message_bytes = 100};
    pst_schedule *schedule = make("gpipe", 3, 1);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0B0:19-21");
    assert_times(schedule, s, 1, "1F0:4-5 1B0:14-16");
    assert_times(schedule, s, 2, "2F0:8-9 2B0:9-11");
    pst_simulation_destroy(s);
    costs.bandwidth = 0; /* infinite */
    s = simulate(schedule, &costs);
    ck_assert_double_eq(s->makespan, 9 + 4);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Stages of one rank need no message. */
START_TEST(no_latency_within_a_rank)
{
    pst_costs costs = {.latency = 10, .bandwidth = 1, .message_bytes = 7};
    pst_schedule *schedule = parse("0F0,1F0,1B0,0B0\n");
    pst_simulation *s = simulate(schedule, &costs);
    ck_assert_double_eq(s->makespan, 6);
    ck_assert_int_eq(s->peak_activations[0], 2);
    ck_assert_int_eq(s->max_queue_depth, 0);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(pairs)
{
    pst_schedule *schedule = parse("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
    pst_simulation *s = simulate(schedule, NULL);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-4 0B0:1-4 0B1:4-6");
    ck_assert_double_eq(s->busy[0], 6);
    ck_assert_int_eq(s->peak_activations[0], 2);
    pst_simulation_destroy(s);
    pst_costs costs = {.pair = 2.5};
    s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-3.5 0B0:1-3.5 0B1:3.5-5.5");
    ck_assert_double_eq(s->busy[0], 5.5);
    ck_assert_double_eq(s->makespan, 5.5);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* A pair begins when both inputs are there. */
START_TEST(a_pair_waits_for_both)
{
    pst_costs costs = {.latency = 3};
    pst_schedule *schedule = parse("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n");
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 1, "1F0:4-5 1F1:5-8 1B0:5-8 1B1:8-10");
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:11-13 0B1:13-15");
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Rank 1 begins iteration 2 as soon as it can; nothing waits for all ranks. */
START_TEST(iterations)
{
    pst_costs costs = {.iterations = 2};
    pst_schedule *schedule = make("gpipe", 2, 1);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0B0:4-6 0F0:6-7 0B0:10-12");
    assert_times(schedule, s, 1, "1F0:1-2 1B0:2-4 1F0:7-8 1B0:8-10");
    ck_assert_int_eq(s->iterations, 2);
    ck_assert_uint_eq(s->count[0], 4);
    ck_assert_double_eq(s->busy[0], 6);
    ck_assert_double_eq(s->longest_rank, 12);
    ck_assert_int_eq(s->peak_activations[0], 1);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Cells that do not compute take no time, and one at the front is not the start. */
START_TEST(cells_without_cost)
{
    pst_schedule *schedule = parse("0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n"
                                   "1RECV_F0,1F0,1B0,1SEND_B0\n");
    pst_costs costs = {.latency = 1};
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0,
                 "0F0:0-1 0SEND_F0:1-1 0RECV_B0:1-1 0B0:6-8 0REDUCE_GRAD:8-8");
    assert_times(schedule, s, 1, "1RECV_F0:0-0 1F0:2-3 1B0:3-5 1SEND_B0:5-5");
    ck_assert_double_eq(s->longest_rank, 8);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(messages_change_no_time)
{
    pst_costs costs = {.latency = 0.25};
    pst_schedule *schedule = make("1f1b", 4, 9), *lowered;
    ck_assert_int_eq(pst_schedule_lower(NULL, schedule, &lowered, NULL), PST_OK);
    pst_simulation *a = simulate(schedule, &costs), *b = simulate(lowered, &costs);
    ck_assert_double_eq(a->makespan, b->makespan);
    ck_assert_double_eq(a->longest_rank, b->longest_rank);
    ck_assert_int_eq(a->max_queue_depth, b->max_queue_depth);
    for (int rank = 0; rank < 4; rank++)
        ck_assert_int_eq(a->peak_activations[rank], b->peak_activations[rank]);
    pst_simulation_destroy(a);
    pst_simulation_destroy(b);
    pst_schedule_destroy(lowered);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(an_idle_rank_and_no_work)
{
    static const double nothing[] = {0, 0};
    pst_costs costs = {
        .forward = nothing, .backward_input = nothing, .backward_weight = nothing};
    pst_schedule *schedule = parse("0F0,0B0\n\n1F0,1B0\n");
    pst_simulation *s = simulate(schedule, &costs);
    ck_assert_double_eq(s->makespan, 0);
    ck_assert_double_eq(s->bubble.of_makespan, 0);
    ck_assert_double_eq(s->bubble.of_ideal, 0);
    ck_assert_double_eq(s->bubble.longest_rank, 0);
    pst_simulation_destroy(s);
    s = simulate(schedule, NULL);
    ck_assert_uint_eq(s->count[1], 0);
    ck_assert_double_eq(s->busy[1], 0);
    ck_assert_double_eq(s->makespan, 6);
    ck_assert_double_eq_tol(s->bubble.longest_rank, 0.5, NEAR);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- figures ------------------------------------------------------------ */

START_TEST(one_f_one_b_makespan)
{
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 12; m++) {
            pst_schedule *schedule = make("1f1b", p, m);
            pst_simulation *s = simulate(schedule, NULL);
            ck_assert_double_eq(s->makespan, (m + p - 1) * 3);
            ck_assert_double_eq(s->ideal, m * 3);
            ck_assert_double_eq_tol(s->bubble.of_makespan, (p - 1.0) / (m + p - 1),
                                    NEAR);
            ck_assert_double_eq_tol(s->bubble.of_ideal, (p - 1.0) / m, NEAR);
            for (int rank = 0; rank < p; rank++)
                ck_assert_int_eq(s->peak_activations[rank],
                                 p - rank < m ? p - rank : m);
            pst_simulation_destroy(s);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* The longest rank is not the whole: rank 1 starts late and ends early. */
START_TEST(longest_rank)
{
    static const double zero[] = {0, 0}, first[] = {1, 5};
    pst_costs costs = {
        .forward = first, .backward_input = zero, .backward_weight = zero};
    pst_schedule *schedule = parse("0F0,0F1\n1F0,1F1\n");
    pst_simulation *s = simulate(schedule, &costs);
    ck_assert_double_eq(s->makespan, 11);
    ck_assert_double_eq(s->longest_rank, 10);
    ck_assert_double_eq_tol(s->bubble.longest_rank, 0, NEAR);
    ck_assert_double_eq_tol(s->bubble.of_makespan, 1.0 / 11, NEAR);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* An activation is held from F to B or W. */
static const struct {
    const char *list;
    int peak;
} peaks[] = {
    {"0F0,0F1,0F2\n", 3},
    {"0F0,0B0,0F1,0B1\n", 1},
    {"0F0,0I0,0F1,0I1,0W0,0W1\n", 2},
    {"0F0,0I0,0W0,0F1,0I1,0W1\n", 1},
    {"0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B,0B2\n", 2},
    {"0F0,(0B0;0F1)OVERLAP_F_B,0B1\n", 2},
};

START_TEST(peak_activations)
{
    pst_schedule *schedule = parse(peaks[_i].list);
    pst_simulation *s = simulate(schedule, NULL);
    ck_assert_int_eq(s->peak_activations[0], peaks[_i].peak);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Rank 0 makes five while rank 1 is busy with the first: four wait. */
START_TEST(queue_depth)
{
    static const double times[] = {1, 100};
    pst_costs costs = {.forward = times};
    pst_schedule *schedule = make("gpipe", 2, 5);
    pst_simulation *s = simulate(schedule, &costs);
    ck_assert_int_eq(s->max_queue_depth, 4);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- refused ------------------------------------------------------------ */

enum { FORWARD, INPUT, WEIGHT, PAIR, LATENCY, BANDWIDTH, BYTES, ITERATIONS };

static const struct {
    int which;
    double value;
    const char *text;
} bad_costs[] = {
    {FORWARD, -1, "forward cost -1 of stage 1: must be 0 or more"},
    {INPUT, -0.5, "backward-input cost -0.5 of stage 1: must be 0 or more"},
    {WEIGHT, -2, "backward-weight cost -2 of stage 1: must be 0 or more"},
    {FORWARD, NAN, "forward cost nan of stage 1: must be 0 or more"},
    {PAIR, -1, "pair -1: must be 0 or more"},
    {LATENCY, -1, "latency -1: must be 0 or more"},
    {LATENCY, NAN, "latency nan: must be 0 or more"},
    {BANDWIDTH, -3, "bandwidth -3: must be 0 or more"},
    {BYTES, -4, "message-bytes -4: must be 0 or more"},
    {ITERATIONS, -1, "-1 iterations: must be at least 1"},
};

static pst_status simulate_with(int which, double value, pst_error *err)
{
    double list[] = {1, value};
    pst_schedule *schedule = make("gpipe", 2, 1);
    pst_simulation *simulation = NULL;
    pst_costs costs = {
        .forward = which == FORWARD ? list : NULL,
        .backward_input = which == INPUT ? list : NULL,
        .backward_weight = which == WEIGHT ? list : NULL,
        .pair = which == PAIR ? value : 0,
        .latency = which == LATENCY ? value : 0,
        .bandwidth = which == BANDWIDTH ? value : 0,
        .message_bytes = which == BYTES ? value : 0,
        .iterations = which == ITERATIONS ? (int)value : 0,
    };
    pst_status status = pst_simulate(NULL, schedule, &costs, &simulation, err);
    ck_assert_ptr_null(simulation);
    pst_schedule_destroy(schedule);
    return status;
}

START_TEST(bad_costs_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(simulate_with(bad_costs[_i].which, bad_costs[_i].value, &err),
                     PST_EINVAL);
    assert_error(&err, PST_EINVAL, "", 0, bad_costs[_i].text);
}
END_TEST

START_TEST(infinite_costs_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(simulate_with(_i, INFINITY, &err), PST_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "inf"));
}
END_TEST

static const struct {
    const char *list, *text;
} stuck[] = {
    {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n",
     "rank 0 never gets the inputs of 0B0; check the schedule to see why"},
    {"0F0\n1F0,1F1\n",
     "rank 1 never gets the inputs of 1F1; check the schedule to see why"},
    {"0B0,0F0\n", "rank 0 never gets the inputs of 0B0; check the schedule to see why"},
    {"0F0,0W0,0I0\n",
     "rank 0 never gets the inputs of 0W0; check the schedule to see why"},
};

START_TEST(deadlocks_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_simulation *simulation = NULL;
    pst_schedule *schedule = parse(stuck[_i].list);
    ck_assert_int_eq(pst_simulate(NULL, schedule, NULL, &simulation, &err),
                     PST_EDEADLOCK);
    assert_error(&err, PST_EDEADLOCK, "", 0, stuck[_i].text);
    ck_assert_ptr_null(simulation);
    pst_simulation_destroy(NULL);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(each_allocation_may_fail)
{
    pst_schedule *schedule = make("1f1b", 3, 4);
    pst_status status = PST_ENOMEM;
    int at = 1;
    for (; status != PST_OK && at < 200; at++) {
        pst_error err = PST_ERROR_INIT;
        pst_simulation *simulation = NULL;
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = pst_simulate(&env, schedule, NULL, &simulation, &err);
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
        pst_simulation_destroy(simulation);
        ck_assert_int_eq(c.allocated, c.released);
    }
    ck_assert_int_gt(at, 20);
    pst_schedule_destroy(schedule);
}
END_TEST

static void add_figures(Suite *suite)
{
    TCase *figures = tcase_create("figures");
    tcase_add_test(figures, one_f_one_b_makespan);
    tcase_add_test(figures, longest_rank);
    tcase_add_loop_test(figures, peak_activations, 0, sizeof peaks / sizeof *peaks);
    tcase_add_test(figures, queue_depth);
    suite_add_tcase(suite, figures);

    TCase *bad = tcase_create("refused");
    tcase_add_loop_test(bad, bad_costs_are_refused, 0,
                        sizeof bad_costs / sizeof *bad_costs);
    tcase_add_loop_test(bad, infinite_costs_are_refused, FORWARD, ITERATIONS);
    tcase_add_loop_test(bad, deadlocks_are_refused, 0, sizeof stuck / sizeof *stuck);
    tcase_add_test(bad, each_allocation_may_fail);
    suite_add_tcase(suite, bad);
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("simulate");
    TCase *times = tcase_create("times");
    tcase_add_test(times, unit_costs);
    tcase_add_test(times, unequal_costs);
    tcase_add_test(times, durations_of_single_actions);
    tcase_add_test(times, split_backward);
    tcase_add_test(times, latency);
    tcase_add_test(times, bandwidth);
    tcase_add_test(times, no_latency_within_a_rank);
    tcase_add_test(times, pairs);
    tcase_add_test(times, a_pair_waits_for_both);
    tcase_add_test(times, iterations);
    tcase_add_test(times, cells_without_cost);
    tcase_add_test(times, messages_change_no_time);
    tcase_add_test(times, an_idle_rank_and_no_work);
    suite_add_tcase(suite, times);
    add_figures(suite);
    return suite;
}
