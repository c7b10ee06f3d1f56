/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_registry.c - names, refusals, small lists by hand, and closed forms against the
 * simulator. Listings of other programs are in test_listings.c.
 */
#include <limits.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

static pst_schedule *make(const char *name, int ranks, int microbatches,
                          pst_order order)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_shape shape = {
        .ranks = ranks, .microbatches = microbatches, .backward_order = order};
    pst_schedule_create(NULL, name, &shape, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

/* ---- small shapes by hand ----------------------------------------------- */

static const struct {
    const char *name;
    int ranks, microbatches;
    pst_order order;
    const char *rows[4];
} by_hand[] = {
    {"gpipe", 1, 1, PST_ORDER_DEFAULT, {"0F0 0B0"}},
    {"gpipe", 1, 3, PST_ORDER_DEFAULT, {"0F0 0F1 0F2 0B0 0B1 0B2"}},
    {"gpipe",
     2,
     3,
     PST_ORDER_DEFAULT,
     {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"}},
    {"gpipe",
     2,
     3,
     PST_ORDER_DESCENDING,
     {"0F0 0F1 0F2 0B2 0B1 0B0", "1F0 1F1 1F2 1B2 1B1 1B0"}},
    {"gpipe", 3, 1, PST_ORDER_DEFAULT, {"0F0 0B0", "1F0 1B0", "2F0 2B0"}},
    {"1f1b", 1, 1, PST_ORDER_DEFAULT, {"0F0 0B0"}},
    {"1f1b", 1, 3, PST_ORDER_DEFAULT, {"0F0 0B0 0F1 0B1 0F2 0B2"}},
    {"1f1b",
     2,
     3,
     PST_ORDER_DEFAULT,
     {"0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"}},
    {"1f1b", 3, 1, PST_ORDER_DEFAULT, {"0F0 0B0", "1F0 1B0", "2F0 2B0"}},
    {"1f1b",
     4,
     2,
     PST_ORDER_DEFAULT,
     {"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2F1 2B0 2B1", "3F0 3B0 3F1 3B1"}},
    {"1f1b",
     4,
     3,
     PST_ORDER_DEFAULT,
     {"0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2", "2F0 2F1 2B0 2F2 2B1 2B2",
      "3F0 3B0 3F1 3B1 3F2 3B2"}},
};

START_TEST(small_shapes)
{
    char row[ROW_SIZE];
    pst_schedule *schedule = make(by_hand[_i].name, by_hand[_i].ranks,
                                  by_hand[_i].microbatches, by_hand[_i].order);
    ck_assert_int_eq(pst_schedule_ranks(schedule), by_hand[_i].ranks);
    ck_assert_int_eq(pst_schedule_stages(schedule), by_hand[_i].ranks);
    ck_assert_int_eq(pst_schedule_microbatches(schedule), by_hand[_i].microbatches);
    for (int rank = 0; rank < by_hand[_i].ranks; rank++)
        ck_assert_str_eq(row_text(schedule, rank, row), by_hand[_i].rows[rank]);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- closed forms ------------------------------------------------------- */

static const struct {
    double forward, backward_input, backward_weight, latency;
} prices[] = {
    {1, 1, 1, 0},   {1, 2, 0.5, 0}, {3, 0.25, 1, 0}, {0, 0, 1, 0},
    {1, 1, 1, 0.5}, {1, 1, 1, 8},   {2, 1, 0, 1},    {0.5, 1, 1, 3},
};

enum { MOST_RANKS = 8, MOST_MICROBATCHES = 12 };

static pst_simulation *simulate_equal(const pst_schedule *schedule, int price)
{
    double forward[MOST_RANKS], input[MOST_RANKS], weight[MOST_RANKS];
    pst_simulation *simulation = NULL;
    for (int i = 0; i < MOST_RANKS; i++) {
        forward[i] = prices[price].forward;
        input[i] = prices[price].backward_input;
        weight[i] = prices[price].backward_weight;
    }
    pst_costs costs = {.forward = forward,
                       .backward_input = input,
                       .backward_weight = weight,
                       .latency = prices[price].latency};
    ck_assert_int_eq(pst_simulate(NULL, schedule, &costs, &simulation, NULL), PST_OK);
    return simulation;
}

/* Is there a closed form, and does the simulation agree with it? */
static int agrees(const char *name, int ranks, int microbatches, int price)
{
    pst_closed_form form;
    pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    if (!pst_schedule_closed_form(
            name, &shape, prices[price].forward, prices[price].backward_input,
            prices[price].backward_weight, prices[price].latency, &form))
        return 0;
    pst_schedule *schedule = make(name, ranks, microbatches, PST_ORDER_DEFAULT);
    pst_simulation *s = simulate_equal(schedule, price);
    ck_assert_msg(s->makespan > form.makespan - 1e-9 &&
                      s->makespan < form.makespan + 1e-9,
                  "%s p=%d m=%d price %d: %g simulated, %g by %s", name, ranks,
                  microbatches, price, s->makespan, form.makespan, form.formula);
    ck_assert_int_eq(s->peak_activations[0], form.peak_first_rank);
    ck_assert_int_eq(s->peak_activations[ranks - 1], form.peak_last_rank);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
    return 1;
}

static const char *const all_names[] = {"gpipe", "1f1b"};

START_TEST(closed_forms_agree_with_the_simulator)
{
    int price = _i / 2;
    const char *name = all_names[_i % 2];
    for (int p = 1; p <= MOST_RANKS; p++)
        for (int m = 1; m <= MOST_MICROBATCHES; m++)
            ck_assert_int_eq(agrees(name, p, m, price),
                             _i % 2 == 0 || prices[price].latency == 0 || m % p < 2);
}
END_TEST

START_TEST(closed_form_texts)
{
    pst_closed_form form;
    pst_shape shape = {.ranks = 4, .microbatches = 8};
    ck_assert_int_eq(pst_schedule_closed_form("GPipe", &shape, 1, 1, 1, 2, &form), 1);
    ck_assert_str_eq(form.formula, "(m+p-1)(F+I+W) + 2c(p-1)");
    ck_assert_double_eq(form.makespan, 11 * 3 + 2 * 2 * 3);
    ck_assert_int_eq(pst_schedule_closed_form("dapple", &shape, 1, 1, 1, 2, &form), 1);
    ck_assert_str_eq(form.formula, "(m+p-1)(F+I+W) + 2c(m+p-2-floor(m/p))");
    ck_assert_double_eq(form.makespan, 11 * 3 + 2 * 2 * 8);
    ck_assert_int_eq(form.peak_first_rank, 4);
    ck_assert_int_eq(form.peak_last_rank, 1);
}
END_TEST

START_TEST(no_closed_form)
{
    pst_closed_form form;
    pst_shape shape = {.ranks = 4, .microbatches = 7};
    ck_assert_int_eq(pst_schedule_closed_form("none", &shape, 1, 1, 1, 0, &form), 0);
    ck_assert_int_eq(pst_schedule_closed_form("1f1b", &shape, 1, 1, 1, 1, &form), 0);
    shape.chunks = 2;
    ck_assert_int_eq(pst_schedule_closed_form("1f1b", &shape, 1, 1, 1, 0, &form), 0);
    shape = (pst_shape){.ranks = 0, .microbatches = 7};
    ck_assert_int_eq(pst_schedule_closed_form("gpipe", &shape, 1, 1, 1, 0, &form), 0);
}
END_TEST

/* m + p - 1 is beyond an int's range. */
START_TEST(closed_forms_of_the_largest_shape)
{
    pst_closed_form form;
    pst_shape shape = {.ranks = 65535, .microbatches = INT_MAX};
    ck_assert_int_eq(pst_schedule_closed_form(all_names[_i], &shape, 1, 1, 1, 0, &form),
                     1);
    ck_assert_double_eq(form.makespan, 3 * (2147483647.0 + 65534));
}
END_TEST

/* ---- names -------------------------------------------------------------- */

START_TEST(kinds_are_complete)
{
    size_t count = 0;
    for (; pst_schedule_kind_at(count) != NULL; count++) {
        const pst_schedule_kind *kind = pst_schedule_kind_at(count);
        ck_assert_ptr_eq(pst_schedule_kind_find(kind->name), kind);
        for (const char *const *alias = kind->aliases; *alias != NULL; alias++)
            ck_assert_ptr_eq(pst_schedule_kind_find(*alias), kind);
        ck_assert_uint_gt(strlen(kind->summary), 0);
        ck_assert_uint_gt(strlen(kind->source), 0);
        ck_assert_uint_gt(strlen(kind->needs), 0);
        ck_assert_uint_gt(strlen(kind->costs), 0);
    }
    ck_assert_uint_ge(count, 16);
    ck_assert_ptr_null(pst_schedule_kind_at((size_t)-1));
}
END_TEST

static const struct {
    const char *name, *kind;
} spellings[] = {
    {"gpipe", "gpipe"},
    {"GPipe", "gpipe"},
    {"fill_drain", "gpipe"},
    {"F-then-B", "gpipe"},
    {"AFAB", "gpipe"},
    {"schedulegpipe", "gpipe"},
    {"1F1B", "1f1b"},
    {"one_f_one_b", "1f1b"},
    {"PipeDream-Flush", "1f1b"},
    {"DAPPLE", "1f1b"},
    {"TrainSchedule", "1f1b"},
    {"Schedule1F1B", "1f1b"},
    {"forward-backward-pipelining-without-interleaving", "1f1b"},
    {"gpip", NULL},
    {"gpipee", NULL},
    {"", NULL},
    {"1f1", NULL},
    {"1f1b ", NULL},
    {"-", NULL},
};

START_TEST(spellings_of_names)
{
    const pst_schedule_kind *kind = pst_schedule_kind_find(spellings[_i].name);
    if (spellings[_i].kind == NULL)
        ck_assert_ptr_null(kind);
    else
        ck_assert_str_eq(kind->name, spellings[_i].kind);
}
END_TEST

static const struct {
    const char *name;
    pst_shape shape;
    const char *text;
} refused[] = {
    {"gpip",
     {.ranks = 2, .microbatches = 2, .chunks = 0},
     "'gpip' is not a schedule; there are gpipe, 1f1b, "},
    {"",
     {.ranks = 2, .microbatches = 2, .chunks = 0},
     "'' is not a schedule; there are gpipe, 1f1b, "},
    {"gpipe",
     {.ranks = 0, .microbatches = 2, .chunks = 0},
     "gpipe: 0 ranks; it needs 1 to 65535"},
    {"GPIPE",
     {.ranks = -3, .microbatches = 2, .chunks = 0},
     "gpipe: -3 ranks; it needs 1 to 65535"},
    {"1f1b",
     {.ranks = 65536, .microbatches = 2, .chunks = 0},
     "1f1b: 65536 ranks; it needs 1 to 65535"},
    {"1f1b",
     {.ranks = 2, .microbatches = 0, .chunks = 0},
     "1f1b: 0 microbatches; it needs at least 1"},
    {"1f1b",
     {.ranks = 2, .microbatches = -1, .chunks = 0},
     "1f1b: -1 microbatches; it needs at least 1"},
    {"1f1b",
     {.ranks = 2, .microbatches = 2, .chunks = 2},
     "1f1b: 2 chunks a rank; it puts one stage on each rank: use 1"},
    {"gpipe",
     {.ranks = 2, .microbatches = 2, .chunks = -1},
     "gpipe: -1 chunks a rank; it puts one stage on each rank: use 1"},
};

START_TEST(shapes_and_names_that_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_create(NULL, refused[_i].name, &refused[_i].shape,
                                         &schedule, &err),
                     PST_EINVAL);
    /* The list of names goes on as kinds are added. */
    if (strlen(err.text) > strlen(refused[_i].text))
        err.text[strlen(refused[_i].text)] = 0;
    assert_error(&err, PST_EINVAL, "", 0, refused[_i].text);
    ck_assert_ptr_null(schedule);
}
END_TEST

START_TEST(each_allocation_may_fail)
{
    pst_status status = PST_ENOMEM;
    int at = 1;
    for (; status != PST_OK && at < 100; at++) {
        pst_error err = PST_ERROR_INIT;
        pst_schedule *schedule = NULL;
        pst_shape shape = {.ranks = 3, .microbatches = 20};
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = pst_schedule_create(&env, all_names[_i], &shape, &schedule, &err);
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
        ck_assert_int_eq(schedule != NULL, status == PST_OK);
        pst_schedule_destroy(schedule);
        ck_assert_int_eq(c.allocated, c.released);
    }
    ck_assert_int_gt(at, 5);
}
END_TEST

static void add_names(Suite *suite)
{
    TCase *names = tcase_create("names");
    tcase_add_test(names, kinds_are_complete);
    tcase_add_loop_test(names, spellings_of_names, 0,
                        sizeof spellings / sizeof *spellings);
    tcase_add_loop_test(names, shapes_and_names_that_are_refused, 0,
                        sizeof refused / sizeof *refused);
    suite_add_tcase(suite, names);
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("registry");
    TCase *lists = tcase_create("lists");
    tcase_add_loop_test(lists, small_shapes, 0, sizeof by_hand / sizeof *by_hand);
    tcase_add_loop_test(lists, each_allocation_may_fail, 0, 2);
    suite_add_tcase(suite, lists);

    TCase *forms = tcase_create("closed_form");
    tcase_add_loop_test(forms, closed_forms_agree_with_the_simulator, 0,
                        2 * sizeof prices / sizeof *prices);
    tcase_add_test(forms, closed_form_texts);
    tcase_add_test(forms, no_closed_form);
    tcase_add_loop_test(forms, closed_forms_of_the_largest_shape, 0, 2);
    suite_add_tcase(suite, forms);
    add_names(suite);
    return suite;
}
