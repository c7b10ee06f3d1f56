/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_zoo.c - every named schedule over all small shapes and over random ones: each
 * runs or is refused for a reason that is known, closed forms hold, nothing deadlocks.
 *
 * PST_TEST_CASES in the environment gives the number of random cases (3,000).
 */
#include <stdlib.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/lower.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

enum { MOST_RANKS = 16, MOST_CHUNKS = 4, MOST_STAGES = 2 * MOST_RANKS * MOST_CHUNKS };

/* What may be refused, said again in the plainest way. */
static int may_be_refused(const char *name, int p, int m, int v)
{
    const int looped =
        strcmp(name, "interleaved") == 0 || strcmp(name, "looped-bfs") == 0 ||
        strcmp(name, "interleaved-zb") == 0 || strcmp(name, "gis") == 0 ||
        strcmp(name, "hanayo") == 0 || strcmp(name, "forward-only") == 0;
    static const char *const twos[] = {"zb-v",   "zb-v-auto", "v-half",    "v-min",
                                       "1f1b-v", "dualpipe",  "dualpipev", "chimera"};
    int two = 0;
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        two |= strcmp(name, twos[i]) == 0;
    if (!looped && v != (two ? 2 : 1))
        return 1;
    if (strcmp(name, "dualpipe") == 0)
        return p % 2 != 0 || m % 2 != 0 || m < 2 * p;
    if (strcmp(name, "chimera") == 0)
        return p % 2 != 0 || m % 2 != 0;
    if (strcmp(name, "dualpipev") == 0)
        return m < 2 * p;
    return 0;
}

/* NULL where it is refused. */
static pst_schedule *make(const char *name, const pst_shape *shape, pst_error *err)
{
    pst_schedule *schedule = NULL;
    pst_schedule_create(NULL, name, shape, &schedule, err);
    return schedule;
}

/* Loop variable: the kind. */
START_TEST(every_shape_runs_or_is_refused)
{
    const pst_schedule_kind *kind = pst_schedule_kind_at((size_t)_i);
    const char *name = kind->name;
    /* Those that search take their time for each shape. */
    const int most = kind->uses_costs ? 5 : MOST_RANKS;
    for (int p = 1; p <= most; p++)
        for (int m = 1; m <= 4 * p + 1; m += p > 8 ? 3 : 1)
            for (int v = 1; v <= MOST_CHUNKS; v++) {
                const pst_shape shape = {.ranks = p, .microbatches = m, .chunks = v};
                pst_error err = PST_ERROR_INIT;
                pst_schedule *schedule = make(name, &shape, &err);
                ck_assert_msg((schedule == NULL) == may_be_refused(name, p, m, v),
                              "%s p=%d m=%d v=%d: %s", name, p, m, v,
                              schedule ? "should be refused" : err.text);
                if (schedule == NULL)
                    continue;
                ck_assert_msg(pst_schedule_check(NULL, schedule, &err) == PST_OK,
                              "%s p=%d m=%d v=%d: %s", name, p, m, v, err.text);
                pst_schedule_destroy(schedule);
            }
}
END_TEST

static const double unit_costs[][3] = {{1, 1, 1}, {1, 2, 1}, {2, 1, 3}};

static void compare_form(const char *name, const pst_schedule *schedule,
                         const pst_shape *shape, const double unit[3])
{
    double f[MOST_STAGES], i[MOST_STAGES], w[MOST_STAGES];
    pst_closed_form form;
    pst_error err = PST_ERROR_INIT;
    pst_simulation *s = NULL;
    if (!pst_schedule_closed_form(name, shape, unit[0], unit[1], unit[2], 0, &form))
        return;
    for (int stage = 0; stage < MOST_STAGES; stage++)
        f[stage] = unit[0], i[stage] = unit[1], w[stage] = unit[2];
    const pst_costs costs = {.forward = f, .backward_input = i, .backward_weight = w};
    pst_simulate(NULL, schedule, &costs, &s, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    ck_assert_msg(
        s->makespan == form.makespan &&
            s->peak_activations[0] == form.peak_first_rank &&
            s->peak_activations[s->ranks - 1] == form.peak_last_rank,
        "%s p=%d m=%d v=%d: makespan %g, closed form %g; peaks %d, %d, closed "
        "form %d, %d",
        name, shape->ranks, shape->microbatches, shape->chunks, s->makespan,
        form.makespan, s->peak_activations[0], s->peak_activations[s->ranks - 1],
        form.peak_first_rank, form.peak_last_rank);
    pst_simulation_destroy(s);
}

START_TEST(closed_forms_hold)
{
    const char *name = pst_schedule_kind_at((size_t)_i)->name;
    if (pst_schedule_kind_at((size_t)_i)->uses_costs)
        return; /* those that search have no closed form */
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 4 * p + 1; m++)
            for (int v = 1; v <= MOST_CHUNKS; v++) {
                const pst_shape shape = {.ranks = p, .microbatches = m, .chunks = v};
                pst_schedule *schedule = make(name, &shape, NULL);
                for (int k = 0; k < 3 && schedule != NULL; k++)
                    compare_form(name, schedule, &shape, unit_costs[k]);
                pst_schedule_destroy(schedule);
            }
}
END_TEST

/* Marsaglia's xorshift64. */
static uint64_t state;

static int below(int count)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state >> 33) % count;
}

static pst_shape random_shape(void)
{
    pst_shape shape = {.ranks = 1 + below(9)};
    shape.microbatches = 1 + below(5 * shape.ranks);
    shape.chunks = below(5);
    shape.slices = below(4) == 0 ? 1 + below(4) : 0;
    shape.group = below(4) == 0 ? 1 + below(2 * shape.ranks) : 0;
    shape.warmup_extra = below(4) == 0 ? below(4) : 0;
    shape.pairs = below(4) == 0;
    shape.memory_limit = below(4) == 0 ? 1 + below(3 * shape.ranks) : 0;
    return shape;
}

/* Simulated with random costs; then lowered, where not even sends that wait deadlock.
 */
static void exercise(const char *name, const pst_schedule *schedule)
{
    double f[MOST_STAGES], i[MOST_STAGES], w[MOST_STAGES];
    pst_error err = PST_ERROR_INIT;
    pst_simulation *s = NULL;
    pst_schedule *lowered = NULL;
    for (int stage = 0; stage < MOST_STAGES; stage++)
        f[stage] = below(9), i[stage] = below(9), w[stage] = below(9);
    const pst_costs costs = {.forward = f,
                             .backward_input = i,
                             .backward_weight = w,
                             .latency = below(3),
                             .iterations = 1 + below(3)};
    ck_assert_msg(pst_schedule_check(NULL, schedule, &err) == PST_OK, "%s: %s", name,
                  err.text);
    pst_simulate(NULL, schedule, &costs, &s, &err);
    ck_assert_msg(s != NULL, "%s: %s", name, err.text);
    for (int rank = 0; rank < s->ranks; rank++)
        ck_assert_int_le(s->peak_activations[rank],
                         pst_schedule_microbatches(schedule) *
                             pst_schedule_stages(schedule) / s->ranks);
    pst_schedule_lower(NULL, schedule, &lowered, &err);
    ck_assert_msg(lowered != NULL, "%s: %s", name, err.text);
    ck_assert_msg(pst_schedule_check(NULL, lowered, &err) == PST_OK, "%s: %s", name,
                  err.text);
    ck_assert_msg(pst_schedule_check_rendezvous(NULL, lowered, &err) == PST_OK,
                  "%s: %s", name, err.text);
    pst_schedule_destroy(lowered);
    pst_simulation_destroy(s);
}

START_TEST(random_shapes_run)
{
    const char *wanted = getenv("PST_TEST_CASES");
    const int cases = wanted != NULL ? atoi(wanted) : 3000;
    size_t kinds = 0;
    int made = 0;
    state = 20240731;
    while (pst_schedule_kind_at(kinds) != NULL)
        kinds++;
    for (int k = 0; k < cases; k++) {
        const pst_schedule_kind *kind = pst_schedule_kind_at((size_t)below((int)kinds));
        const char *name = kind->name;
        pst_shape shape = random_shape();
        if (kind->uses_costs && below(16) != 0)
            continue; /* they search for long */
        pst_error err = PST_ERROR_INIT;
        pst_schedule *schedule = make(name, &shape, &err);
        if (schedule != NULL) {
            exercise(name, schedule);
            made++;
        } else {
            ck_assert_int_eq(err.status, PST_EINVAL);
        }
        pst_schedule_destroy(schedule);
    }
    ck_assert_int_gt(made, cases / 10);
}
END_TEST

/* ---- the Zero Bubble paper's table: profiled times, rates by the longest rank
 * -------- */

static const struct {
    int ranks, microbatches;
    double f, i, w, latency, one_f_one_b, h1, h2, one_p, two_p;
} profiled[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, .2431, .1585, .1083, .1585, .0433},
    {8, 32, 18.513, 18.086, 9.331, 0.626, .1985, .1242, .0837, .1242, .0039},
    {8, 64, 18.546, 18.097, 9.321, 0.762, .1240, .0674, .0444, .0674, .0026},
    {8, 24, 29.718, 29.444, 19.927, 0.527, .2347, .1323, .0698, .1323, .0029},
    {8, 32, 29.802, 29.428, 19.530, 0.577, .1898, .1045, .0559, .1045, .0022},
    {16, 48, 11.347, 11.248, 8.132, 0.377, .2552, .1397, .0672, .1397, .0066},
    {16, 128, 11.325, 11.308, 8.109, 0.378, .1251, .0576, .0266, .0576, .0028},
    {32, 96, 10.419, 10.207, 7.715, 0.408, .2646, .1421, .0641, .1421, .0038},
    {32, 256, 10.402, 10.248, 7.698, 0.460, .1352, .0594, .0257, .0594, .0018},
};

/* The longest rank's loss. `times` are of one stage: f, i, w, latency. */
static double lost_by_longest(const char *name, pst_shape shape, double freed,
                              const double times[4])
{
    double f[MOST_STAGES], i[MOST_STAGES], w[MOST_STAGES];
    for (int stage = 0; stage < MOST_STAGES; stage++)
        f[stage] = times[0], i[stage] = times[1], w[stage] = times[2];
    const pst_costs costs = {
        .forward = f, .backward_input = i, .backward_weight = w, .latency = times[3]};
    shape.costs = &costs;
    shape.freed_at_input = freed;
    pst_error err = PST_ERROR_INIT;
    pst_simulation *s = NULL;
    pst_schedule *schedule = make(name, &shape, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    pst_simulate(NULL, schedule, &costs, &s, &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    const double lost = s->bubble.longest_rank;
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
    return lost;
}

enum { DIGITS = 6 }; /* of the tables' last place, and a rounding: 0.00006 */

static void comes_out(const char *name, const pst_shape *shape, const double times[4],
                      double due)
{
    const double found = lost_by_longest(name, *shape, 0, times);
    ck_assert_msg(found > due - DIGITS * 1e-5 && found < due + DIGITS * 1e-5,
                  "%s: %.4f, the table says %.4f", name, found, due);
}

static void is_not_worse(const char *name, const pst_shape *shape, double freed,
                         const double times[4], double due)
{
    const double found = lost_by_longest(name, *shape, freed, times);
    ck_assert_msg(found < due + DIGITS * 1e-5, "%s: %.4f, the table says %.4f", name,
                  found, due);
}

START_TEST(the_zero_bubble_table_comes_out)
{
    const double times[4] = {profiled[_i].f, profiled[_i].i, profiled[_i].w,
                             profiled[_i].latency};
    const pst_shape shape = {.ranks = profiled[_i].ranks,
                             .microbatches = profiled[_i].microbatches};
    comes_out("1f1b", &shape, times, profiled[_i].one_f_one_b);
    comes_out("zb-h1", &shape, times, profiled[_i].h1);
    comes_out("zb-h2", &shape, times, profiled[_i].h2);
    is_not_worse("zb-1p", &shape, 0, times, profiled[_i].one_p);
    is_not_worse("zb-2p", &shape, 0.5, times, profiled[_i].two_p);
}
END_TEST

/* The paper's first row for 1F1B-I is optimistic: with all dependencies it is this. */
START_TEST(interleaved_keeps_all_dependencies)
{
    const double times[4] = {18.522 / 3, 18.086 / 3, 9.337 / 3, 0.601};
    const pst_shape shape = {.ranks = 8, .microbatches = 24, .chunks = 3};
    comes_out("interleaved", &shape, times, 0.1090);
}
END_TEST

/* The second table: times are of a chunk, so kinds with one stage a rank take twice. */
static const struct {
    int ranks, microbatches;
    double f, i, w, latency, one_f_one_b, h1, h2, v;
} chunked[] = {
    {16, 48, 14.407, 14.380, 9.676, 1.610, .2668, .1536, .0823, .0697},
    {16, 64, 14.412, 14.393, 9.688, 1.621, .2206, .1198, .0630, .0533},
    {16, 128, 14.316, 14.306, 9.639, 1.619, .1390, .0637, .0325, .0274},
    {24, 72, 6.763, 6.969, 5.251, 0.755, .2699, .1439, .0628, .0638},
    {24, 192, 6.785, 6.990, 5.260, 0.770, .1403, .0595, .0247, .0250},
    {32, 128, 9.469, 9.744, 7.306, 0.892, .2204, .1111, .0478, .0451},
    {32, 256, 9.447, 9.644, 7.193, 0.887, .1362, .0593, .0251, .0236},
};

START_TEST(the_table_with_zb_v_comes_out)
{
    const double chunk[4] = {chunked[_i].f, chunked[_i].i, chunked[_i].w,
                             chunked[_i].latency};
    const double whole[4] = {2 * chunk[0], 2 * chunk[1], 2 * chunk[2], chunk[3]};
    const pst_shape shape = {.ranks = chunked[_i].ranks,
                             .microbatches = chunked[_i].microbatches};
    comes_out("1f1b", &shape, whole, chunked[_i].one_f_one_b);
    comes_out("zb-h1", &shape, whole, chunked[_i].h1);
    comes_out("zb-h2", &shape, whole, chunked[_i].h2);
    is_not_worse("zb-v-auto", &shape, 0, chunk, chunked[_i].v);
}
END_TEST

static double idle_of(const char *name, int p, int m, int v)
{
    const pst_shape shape = {.ranks = p, .microbatches = m, .chunks = v};
    pst_error err = PST_ERROR_INIT;
    pst_simulation *s = NULL;
    pst_schedule *schedule = make(name, &shape, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    ck_assert_int_eq(pst_simulate(NULL, schedule, NULL, &s, &err), PST_OK);
    const double idle = s->bubble.of_makespan;
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
    return idle;
}

/* With B = 2F, as all of F, I and W are 1. */
START_TEST(searched_kinds_are_as_good_as_is_said)
{
    ck_assert_double_le(idle_of("hanayo", 4, 4, 2), 1 / 3.0 + 1e-9);
    ck_assert_double_le(idle_of("hanayo", 4, 4, 4), 0.21312);
    ck_assert_double_le(idle_of("chimera", 4, 8, 2), 0.143);
    ck_assert_double_le(idle_of("chimera", 4, 16, 2), 0.077);
    ck_assert_double_le(idle_of("v-half", 8, 16, 2), 17 / (6 * 16 + 17.0) + 1e-9);
    ck_assert_double_le(idle_of("v-min", 8, 16, 2), 27 / (6 * 16 + 27.0) + 1e-9);
    ck_assert_double_le(idle_of("zb-v-auto", 8, 16, 2), 7 / (6 * 16 + 7.0) + 1e-9);
}
END_TEST

static pst_simulation *simulate(const char *name, const pst_shape *shape)
{
    pst_error err = PST_ERROR_INIT;
    pst_simulation *s = NULL;
    pst_schedule *schedule = make(name, shape, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    ck_assert_int_eq(pst_simulate(NULL, schedule, NULL, &s, &err), PST_OK);
    pst_schedule_destroy(schedule);
    return s;
}

/* With what partners leave there, and no slower than 1F1B. */
START_TEST(bpipe_holds_half)
{
    for (int p = 1; p <= 16; p++)
        for (int m = 1; m <= 4 * p + 1; m++) {
            const pst_shape shape = {.ranks = p, .microbatches = m};
            pst_simulation *s = simulate("bpipe", &shape);
            for (int rank = 0; rank < p; rank++)
                ck_assert_msg(s->peak_activations[rank] <= (p + 3) / 2,
                              "p=%d m=%d: rank %d holds %d", p, m, rank,
                              s->peak_activations[rank]);
            ck_assert_double_eq(s->makespan, 3.0 * (m + p - 1));
            pst_simulation_destroy(s);
        }
}
END_TEST

START_TEST(weights_have_few_versions)
{
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 4 * p + 1; m++) {
            const pst_shape shape = {.ranks = p, .microbatches = m};
            pst_simulation *s = simulate("pipedream", &shape);
            ck_assert_int_eq(s->updates, m);
            for (int rank = 0; rank < p; rank++) {
                ck_assert_int_le(s->weight_versions[rank], p - rank);
                if (m >= 2 * p) /* else its forwards are over too soon */
                    ck_assert_int_eq(s->weight_versions[rank], p - rank);
            }
            pst_simulation_destroy(s);
            for (int group = 1; group <= p + 1; group++) {
                const pst_shape grouped = {
                    .ranks = p, .microbatches = m, .group = group};
                s = simulate("pipedream-2bw", &grouped);
                ck_assert_int_eq(s->updates, (m + group - 1) / group);
                for (int rank = 0; rank < p; rank++)
                    ck_assert_int_le(s->weight_versions[rank], 2);
                pst_simulation_destroy(s);
            }
        }
}
END_TEST

static const struct {
    const char *name;
    pst_shape shape;
    const char *text;
} refused[] = {
    {"dualpipe",
     {.ranks = 7, .microbatches = 14},
     "dualpipe: 7 ranks; it needs an even number: use 6 or 8, or dualpipev"},
    {"dualpipe",
     {.ranks = 4, .microbatches = 6},
     "dualpipe: 6 microbatches on 4 ranks; it needs an even number of at least 2p: use "
     "8, "
     "or zb-v"},
    {"dualpipe",
     {.ranks = 4, .microbatches = 9},
     "dualpipe: 9 microbatches on 4 ranks; it needs an even number of at least 2p: use "
     "10, or zb-v"},
    {"dualpipev",
     {.ranks = 4, .microbatches = 7},
     "dualpipev: 7 microbatches on 4 ranks; it needs at least 2p: use 8, or zb-v"},
    {"chimera",
     {.ranks = 5, .microbatches = 4},
     "chimera: 5 ranks; it needs an even number: use 4 or 6"},
    {"zb-v",
     {.ranks = 4, .microbatches = 4, .chunks = 3},
     "zb-v: 3 chunks a rank; it puts two stages on each rank: use 2"},
    {"1f1b",
     {.ranks = 4, .microbatches = 4, .group = 2},
     "1f1b has no groups; interleaved, interleaved-zb, gis, pipedream-2bw have"},
    {"zb-h1",
     {.ranks = 4, .microbatches = 4, .slices = 2},
     "zb-h1 has no slices; seq1f1b has"},
    {"interleaved",
     {.ranks = 4, .microbatches = 5, .chunks = 3, .group = 4},
     "interleaved: groups of 4 with p=4 and m=5 would deadlock; a group is at least p "
     "and "
     "leaves none or at least p microbatches over: 5 works"},
    {"gis",
     {.ranks = 4, .microbatches = 5, .group = 1},
     "gis: groups of 1 on 4 ranks; a group has half of p, rounded up, to p "
     "microbatches: "
     "use 2 to 4"},
};

START_TEST(refusals_say_what_would_work)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_ptr_null(make(refused[_i].name, &refused[_i].shape, &err));
    ck_assert_str_eq(err.text, refused[_i].text);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("zoo");
    TCase *all = tcase_create("all");
    int kinds = 0;
    while (pst_schedule_kind_at((size_t)kinds) != NULL)
        kinds++;
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, every_shape_runs_or_is_refused, 0, kinds);
    tcase_add_loop_test(all, closed_forms_hold, 0, kinds);
    tcase_add_test(all, random_shapes_run);
    tcase_add_loop_test(all, the_zero_bubble_table_comes_out, 0,
                        sizeof profiled / sizeof *profiled);
    tcase_add_test(all, interleaved_keeps_all_dependencies);
    tcase_add_loop_test(all, the_table_with_zb_v_comes_out, 0,
                        sizeof chunked / sizeof *chunked);
    tcase_add_test(all, searched_kinds_are_as_good_as_is_said);
    tcase_add_test(all, bpipe_holds_half);
    tcase_add_test(all, weights_have_few_versions);
    tcase_add_loop_test(all, refusals_say_what_would_work, 0,
                        sizeof refused / sizeof *refused);
    suite_add_tcase(suite, all);
    return suite;
}
