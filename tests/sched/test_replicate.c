/* SPDX-License-Identifier: BSD-3-Clause */
/* test_replicate.c - copies of a list side by side. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/check.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

enum { MOST_COPIES = 4 };

static pst_schedule *make(const char *name, int p, int m, int v)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const pst_shape shape = {.ranks = p, .microbatches = m, .chunks = v};
    pst_schedule_create(NULL, name, &shape, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

static pst_schedule *replicate(const pst_schedule *base, int copies)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_schedule_replicate(NULL, base, copies, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

/* Row r of `base` stands D times, with the stages of each copy. */
static void compare_rows(const pst_schedule *base, const pst_schedule *copies, int d)
{
    const int stages = pst_schedule_stages(base);
    for (int rank = 0; rank < d * pst_schedule_ranks(base); rank++) {
        size_t count, wanted;
        const pst_action *row = pst_schedule_row(copies, rank, &count);
        const pst_action *own = pst_schedule_row(base, rank / d, &wanted);
        ck_assert_uint_eq(count, wanted);
        for (size_t i = 0; i < count; i++) {
            pst_action action = own[i];
            action.stage = (uint16_t)(action.stage + rank % d * stages);
            ck_assert_int_eq(memcmp(&row[i], &action, sizeof action), 0);
        }
    }
}

static double makespan(const pst_schedule *schedule)
{
    pst_error err = PST_ERROR_INIT;
    pst_simulation *simulation = NULL;
    pst_simulate(NULL, schedule, NULL, &simulation, &err);
    ck_assert_msg(simulation != NULL, "%s", err.text);
    const double span = simulation->makespan;
    pst_simulation_destroy(simulation);
    return span;
}

/* Loop variable: the kind. */
START_TEST(copies_are_valid_and_as_fast)
{
    const pst_schedule_kind *kind = pst_schedule_kind_at((size_t)_i);
    pst_schedule *base = NULL;
    for (int v = 1; v <= 2 && base == NULL; v++) {
        const pst_shape shape = {.ranks = 4, .microbatches = 8, .chunks = v};
        pst_schedule_create(NULL, kind->name, &shape, &base, NULL);
    }
    ck_assert_ptr_nonnull(base);
    for (int d = 1; d <= MOST_COPIES; d++) {
        pst_error err = PST_ERROR_INIT;
        if (d > 1 && pst_schedule_updates(base) > 0)
            continue;
        pst_schedule *copies = replicate(base, d);
        ck_assert_msg(pst_schedule_check(NULL, copies, &err) == PST_OK, "%s", err.text);
        ck_assert_int_eq(pst_schedule_data_parallel(copies), d);
        ck_assert_int_eq(pst_schedule_replicas(copies),
                         d * pst_schedule_replicas(base));
        ck_assert_int_eq(pst_schedule_slices(copies), pst_schedule_slices(base));
        ck_assert_int_eq(pst_schedule_total_microbatches(copies),
                         d * pst_schedule_total_microbatches(base));
        ck_assert_str_eq(pst_schedule_name(copies), kind->name);
        compare_rows(base, copies, d);
        ck_assert_double_eq(makespan(copies), makespan(base));
        for (int rank = 0; rank < 4 * d; rank++)
            ck_assert_int_eq(pst_schedule_partner(copies, rank),
                             pst_schedule_partner(base, rank / d) * d + rank % d);
        pst_schedule_destroy(copies);
    }
    pst_schedule_destroy(base);
}
END_TEST

static void refuse(const pst_schedule *base, int copies, const char *text)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_replicate(NULL, base, copies, &schedule, &err),
                     PST_EINVAL);
    ck_assert_ptr_null(schedule);
    ck_assert_str_eq(err.text, text);
}

START_TEST(what_is_refused)
{
    pst_schedule *base = make("1f1b", 2, 2, 1);
    pst_schedule *two = replicate(base, 2);
    pst_schedule *asynchronous = make("pipedream", 2, 4, 1);
    refuse(base, 0, "1f1b: 0 copies side by side; at least 1 would work");
    refuse(base, 40000,
           "1f1b: 40000 copies of 2 stages; there are at most 65535 stages in all: up "
           "to 32767 copies would work");
    refuse(two, 3, "1f1b: 3 copies side by side of a list that has 2 already");
    refuse(asynchronous, 2,
           "pipedream: 2 copies side by side, and it has STEP: each stage steps by "
           "itself, and its copies would have to agree before each; a synchronous "
           "schedule would work");
    pst_schedule_destroy(asynchronous);
    pst_schedule_destroy(two);
    pst_schedule_destroy(base);
}
END_TEST

START_TEST(a_builder_refuses_copies_that_do_not_divide)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder;
    ck_assert_int_eq(pst_schedule_builder_create(NULL, 4, 4, 1, &builder, NULL),
                     PST_OK);
    ck_assert_int_eq(pst_schedule_builder_set_data_parallel(builder, 2, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text, "2 copies side by side, 4 ranks and 1 replicas in all; "
                               "the copies must divide both");
    pst_schedule_builder_destroy(builder);
}
END_TEST

/* A file that says it holds copies must be laid out as they are. */
START_TEST(a_copy_on_ranks_of_another_is_refused)
{
    static const char text[] = "0F0,0B0\n1F0,1B0\n2F0,2B0\n3F0,3B0\n";
    static const pst_csv_options options = {.replicas = 2, .data_parallel = 2};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), &options,
                                            &schedule, &err),
                     PST_OK);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_ESCHEDULE);
    ck_assert_str_eq(
        err.text, "t.csv: stage 1 of copy 0 stands on rank 1, which is of copy 1; of "
                  "2 copies side by side, rank r is of copy r mod 2");
    pst_schedule_destroy(schedule);
}
END_TEST

/* bpipe evicts, which PyTorch's grammar lacks; dualpipe has two replicas a copy. */
START_TEST(a_file_keeps_the_copies)
{
    static const char *const names[] = {"bpipe", "dualpipe"};
    char folder[] = "/tmp/test_replicate.XXXXXX", path[64], meta[96];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/list.csv", folder);
    snprintf(meta, sizeof meta, "%s.meta.json", path);
    for (int i = 0; i < 2; i++) {
        pst_error err = PST_ERROR_INIT;
        pst_schedule *read = NULL;
        pst_schedule *base = make(names[i], 4, 8, 1 + i);
        pst_schedule *copies = replicate(base, 3);
        ck_assert_int_eq(pst_schedule_write_csv(NULL, copies, path, NULL), PST_OK);
        pst_schedule_read_csv(NULL, path, NULL, &read, &err);
        ck_assert_msg(read != NULL, "%s", err.text);
        ck_assert_int_eq(pst_schedule_data_parallel(read), 3);
        ck_assert_int_eq(pst_schedule_replicas(read), 3 + 3 * i);
        compare_rows(base, read, 3);
        ck_assert_msg(pst_schedule_check(NULL, read, &err) == PST_OK, "%s", err.text);
        pst_schedule_destroy(read);
        pst_schedule_destroy(copies);
        pst_schedule_destroy(base);
    }
    unlink(meta);
    unlink(path);
    rmdir(folder);
}
END_TEST

Suite *pst_test_suite(void)
{
    int kinds = 0;
    while (pst_schedule_kind_at((size_t)kinds) != NULL)
        kinds++;
    Suite *suite = suite_create("replicate");
    TCase *all = tcase_create("replicate");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, copies_are_valid_and_as_fast, 0, kinds);
    tcase_add_test(all, what_is_refused);
    tcase_add_test(all, a_builder_refuses_copies_that_do_not_divide);
    tcase_add_test(all, a_copy_on_ranks_of_another_is_refused);
    tcase_add_test(all, a_file_keeps_the_copies);
    suite_add_tcase(suite, all);
    return suite;
}
