/* SPDX-License-Identifier: BSD-3-Clause */
/* test_report_json.c - reports are JSON and hold the values that they document. */
#include <jansson.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/report_json.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

static json_t *parsed(char *text)
{
    json_error_t error;
    ck_assert_ptr_nonnull(text);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(root != NULL, "%s in %s", error.text, text);
    pst_release(NULL, text);
    return root;
}

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s", key);
    return json_number_value(value);
}

static int whole(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_integer(value), "%s", key);
    return (int)json_integer_value(value);
}

static const char *string(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_string(value), "%s", key);
    return json_string_value(value);
}

/* ---- of a simulation ---------------------------------------------------- */

static pst_simulation *simulate(int ranks, int microbatches, const pst_costs *costs)
{
    pst_schedule *schedule;
    pst_simulation *simulation;
    pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    ck_assert_int_eq(pst_schedule_create(NULL, "1f1b", &shape, &schedule, NULL),
                     PST_OK);
    ck_assert_int_eq(pst_simulate(NULL, schedule, costs, &simulation, NULL), PST_OK);
    pst_schedule_destroy(schedule);
    return simulation;
}

static void assert_shape(const json_t *root)
{
    ck_assert_str_eq(string(root, "schedule"), "1f1b");
    ck_assert_int_eq(whole(root, "ranks"), 4);
    ck_assert_int_eq(whole(root, "stages"), 4);
    ck_assert_int_eq(whole(root, "microbatches"), 8);
    ck_assert_int_eq(whole(root, "iterations"), 1);
    ck_assert_int_eq(whole(root, "max_queue_depth"), 1);
}

static void assert_times(const json_t *root)
{
    const json_t *bubble = json_object_get(root, "bubble");
    ck_assert_double_eq(real(root, "makespan"), 33);
    ck_assert_double_eq(real(root, "longest_rank"), 33);
    ck_assert_double_eq(real(root, "ideal"), 24);
    ck_assert_uint_eq(json_object_size(bubble), 3);
    ck_assert_double_eq_tol(real(bubble, "of_makespan"), 3.0 / 11, 1e-11);
    ck_assert_double_eq_tol(real(bubble, "of_ideal"), 0.375, 1e-11);
    ck_assert_double_eq_tol(real(bubble, "longest_rank"), 3.0 / 11, 1e-11);
}

static void assert_lists(const json_t *root)
{
    const json_t *busy = json_object_get(root, "busy");
    const json_t *peaks = json_object_get(root, "peak_activations");
    ck_assert_uint_eq(json_array_size(busy), 4);
    ck_assert_uint_eq(json_array_size(peaks), 4);
    for (size_t rank = 0; rank < 4; rank++) {
        ck_assert_double_eq(json_number_value(json_array_get(busy, rank)), 24);
        ck_assert_int_eq(json_integer_value(json_array_get(peaks, rank)),
                         4 - (int)rank);
    }
}

START_TEST(simulation)
{
    char *text = NULL;
    pst_simulation *s = simulate(4, 8, NULL);
    ck_assert_int_eq(pst_report_simulation(NULL, "1f1b", s, NULL, &text, NULL), PST_OK);
    json_t *root = parsed(text);
    ck_assert_uint_eq(json_object_size(root), 12);
    assert_shape(root);
    assert_times(root);
    assert_lists(root);
    ck_assert_ptr_null(json_object_get(root, "closed_form"));
    json_decref(root);
    pst_simulation_destroy(s);
}
END_TEST

START_TEST(simulation_with_a_closed_form)
{
    char *text = NULL;
    pst_closed_form closed;
    pst_shape shape = {.ranks = 4, .microbatches = 8};
    ck_assert_int_eq(pst_schedule_closed_form("1f1b", &shape, 1, 1, 1, 0, &closed), 1);
    pst_simulation *s = simulate(4, 8, NULL);
    ck_assert_int_eq(pst_report_simulation(NULL, "1f1b", s, &closed, &text, NULL),
                     PST_OK);
    json_t *root = parsed(text), *form = json_object_get(root, "closed_form");
    ck_assert_uint_eq(json_object_size(root), 13);
    ck_assert_uint_eq(json_object_size(form), 4);
    ck_assert_double_eq(real(form, "makespan"), 33);
    ck_assert_int_eq(whole(form, "peak_first_rank"), 4);
    ck_assert_int_eq(whole(form, "peak_last_rank"), 1);
    ck_assert_str_eq(string(form, "formula"), closed.formula);
    json_decref(root);
    pst_simulation_destroy(s);
}
END_TEST

/* Numbers keep twelve digits, and names their quotes. */
START_TEST(values_that_are_not_round)
{
    static const double third[] = {1.0 / 3};
    char *text = NULL;
    pst_costs costs = {.forward = third, .iterations = 3};
    pst_simulation *s = simulate(1, 7, &costs);
    const char *name = "a \"b\"\\c\n\xc3\xa9.csv";
    ck_assert_int_eq(pst_report_simulation(NULL, name, s, NULL, &text, NULL), PST_OK);
    json_t *root = parsed(text);
    ck_assert_str_eq(string(root, "schedule"), name);
    ck_assert_int_eq(whole(root, "iterations"), 3);
    ck_assert_double_eq_tol(real(root, "makespan"), 49, 1e-9);
    ck_assert_double_eq(real(json_object_get(root, "bubble"), "of_makespan"), 0);
    json_decref(root);
    pst_simulation_destroy(s);
}
END_TEST

/* Two messages forward, of which the second waits for 1, and two back. */
START_TEST(links_of_a_network)
{
    static const int place[] = {0, 1};
    const pst_network network = {.hosts = 2, .host_of_rank = place};
    const pst_costs costs = {.bandwidth = 1, .message_bytes = 2, .network = &network};
    char *text = NULL;
    pst_simulation *s = simulate(2, 2, &costs);
    ck_assert_int_eq(pst_report_simulation(NULL, "1f1b", s, NULL, &text, NULL), PST_OK);
    json_t *root = parsed(text);
    ck_assert_int_eq(whole(root, "hosts"), 2);
    const json_t *links = json_object_get(root, "links");
    ck_assert_uint_eq(json_array_size(links), 2);
    const json_t *link = json_array_get(links, 0);
    ck_assert_int_eq(whole(link, "from"), 0);
    ck_assert_int_eq(whole(link, "to"), 1);
    ck_assert_double_eq(real(link, "busy"), 4);
    ck_assert_double_eq(real(link, "longest_wait"), 1);
    ck_assert_int_eq(whole(json_array_get(links, 1), "from"), 1);
    json_decref(root);
    pst_simulation_destroy(s);
}
END_TEST

/* ---- of a check --------------------------------------------------------- */

/* What the checker finds, as the tools would report it. */
static json_t *report(const char *list)
{
    char *text = NULL;
    pst_error found = PST_ERROR_INIT, rendezvous = PST_ERROR_INIT;
    pst_schedule *schedule = parse(list);
    int least = 0;
    if (pst_schedule_check(NULL, schedule, &found) == PST_OK) {
        pst_schedule_check_rendezvous(NULL, schedule, &rendezvous);
        pst_schedule_least_capacity(NULL, schedule, &least, NULL);
    }
    ck_assert_int_eq(
        pst_report_check(NULL, schedule, &found, &rendezvous, least, &text, NULL),
        PST_OK);
    pst_schedule_destroy(schedule);
    return parsed(text);
}

START_TEST(a_valid_list)
{
    json_t *root = report("0F0,0B0\n1F0,1B0\n");
    ck_assert_uint_eq(json_object_size(root), 9);
    ck_assert(json_is_true(json_object_get(root, "valid")));
    ck_assert_int_eq(whole(root, "least_capacity"), 0);
    ck_assert_int_eq(whole(root, "ranks"), 2);
    ck_assert_int_eq(whole(root, "stages"), 2);
    ck_assert_int_eq(whole(root, "microbatches"), 1);
    ck_assert_int_eq(whole(root, "actions"), 4);
    ck_assert(json_is_null(json_object_get(root, "rendezvous")));
    json_decref(root);
}
END_TEST

START_TEST(a_list_that_wants_buffers)
{
    json_t *root = report("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    ck_assert(json_is_true(json_object_get(root, "valid")));
    ck_assert_str_eq(
        string(root, "rendezvous"),
        "deadlock: rank 0 waits in 0SEND_F1 (cell 4) for 1RECV_F1 of rank 1, "
        "rank 1 waits in 1SEND_B0 (cell 4) for 0RECV_B0 of rank 0");
    ck_assert_int_eq(whole(root, "least_capacity"), 1);
    json_decref(root);
}
END_TEST

static const struct {
    const char *list, *status, *file, *message;
    int line;
} faults[] = {
    {"0F0,0B0\n1B0,1F0\n", "invalid schedule", "t.csv",
     "rank 1, cell 1 (1B0): comes before 1F0", 2},
    {"1F0,0F0\n", "deadlock", "t.csv",
     "deadlock: rank 0 waits in 1F0 (cell 1) for 0F0 of rank 0", 1},
    {"1F0\n", "invalid schedule", "",
     "t.csv: stage 0 is on no rank; each of the 2 stages needs one", 0},
};

START_TEST(a_list_with_a_fault)
{
    json_t *root = report(faults[_i].list);
    ck_assert_uint_eq(json_object_size(root), 5);
    ck_assert(json_is_false(json_object_get(root, "valid")));
    ck_assert_str_eq(string(root, "status"), faults[_i].status);
    ck_assert_str_eq(string(root, "file"), faults[_i].file);
    ck_assert_int_eq(whole(root, "line"), faults[_i].line);
    ck_assert_str_eq(string(root, "message"), faults[_i].message);
    json_decref(root);
}
END_TEST

/* A file that could not be read has no list. */
START_TEST(no_list_at_all)
{
    char *text = NULL;
    pst_error found = PST_ERROR_INIT, none = PST_ERROR_INIT;
    pst_error_set_at(&found, PST_EFORMAT, "x.csv", 3, "cell 1 (\"?\"): ...");
    ck_assert_int_eq(pst_report_check(NULL, NULL, &found, &none, 0, &text, NULL),
                     PST_OK);
    json_t *root = parsed(text);
    ck_assert_str_eq(string(root, "status"), "malformed file");
    ck_assert_str_eq(string(root, "file"), "x.csv");
    ck_assert_int_eq(whole(root, "line"), 3);
    json_decref(root);
}
END_TEST

/* A file's name may be any bytes; JSON is UTF-8. */
START_TEST(names_that_are_not_utf8)
{
    char *text = NULL;
    pst_error found = PST_ERROR_INIT, err = PST_ERROR_INIT;
    pst_error_set_at(&found, PST_EIO, "\xff.csv", 0, "\xff.csv: No such file");
    pst_report_check(NULL, NULL, &found, &found, 0, &text, &err);
    ck_assert_msg(err.status == PST_OK, "%s", err.text);
    json_decref(parsed(text));
    pst_simulation *s = simulate(1, 1, NULL);
    pst_report_simulation(NULL, "\xff.csv", s, NULL, &text, &err);
    ck_assert_msg(err.status == PST_OK, "%s", err.text);
    json_decref(parsed(text));
    pst_simulation_destroy(s);
}
END_TEST

START_TEST(the_text_is_in_the_callers_memory)
{
    char *text = NULL;
    pst_error err = PST_ERROR_INIT;
    counting c = {0};
    pst_env env = counting_env(&c);
    pst_simulation *s = simulate(2, 2, NULL);
    ck_assert_int_eq(pst_report_simulation(&env, "x", s, NULL, &text, &err), PST_OK);
    ck_assert_int_eq(c.allocated, 1);
    pst_release(&env, text);
    text = NULL;
    c = (counting){.fail_at = 1};
    ck_assert_int_eq(pst_report_simulation(&env, "x", s, NULL, &text, &err),
                     PST_ENOMEM);
    ck_assert_int_eq((int)err.status, PST_ENOMEM);
    ck_assert_ptr_null(text);
    pst_simulation_destroy(s);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("report_json");
    TCase *simulated = tcase_create("simulation");
    tcase_add_test(simulated, simulation);
    tcase_add_test(simulated, simulation_with_a_closed_form);
    tcase_add_test(simulated, values_that_are_not_round);
    tcase_add_test(simulated, links_of_a_network);
    tcase_add_test(simulated, the_text_is_in_the_callers_memory);
    suite_add_tcase(suite, simulated);

    TCase *checked = tcase_create("check");
    tcase_add_test(checked, a_valid_list);
    tcase_add_test(checked, a_list_that_wants_buffers);
    tcase_add_loop_test(checked, a_list_with_a_fault, 0,
                        sizeof faults / sizeof *faults);
    tcase_add_test(checked, no_list_at_all);
    tcase_add_test(checked, names_that_are_not_utf8);
    suite_add_tcase(suite, checked);
    return suite;
}
