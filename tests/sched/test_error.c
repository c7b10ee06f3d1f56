/* SPDX-License-Identifier: BSD-3-Clause */
/* test_error.c - errors: set once, cut where too long, and a text for each status. */
#include <string.h>

#include <penstock/error.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

START_TEST(set_fills_everything)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_error_set(&err, PST_EINVAL, "%d ranks: must be 1 to %d", 0, 9),
                     PST_EINVAL);
    assert_error(&err, PST_EINVAL, "", 0, "0 ranks: must be 1 to 9");
}
END_TEST

START_TEST(set_at_names_the_place)
{
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_error_set_at(&err, PST_EFORMAT, "a.csv", 3, "cell %s", "x"),
                     PST_EFORMAT);
    assert_error(&err, PST_EFORMAT, "a.csv", 3, "cell x");
}
END_TEST

START_TEST(set_at_without_a_file)
{
    pst_error err = PST_ERROR_INIT;
    pst_error_set_at(&err, PST_ESCHEDULE, NULL, 0, "a fault");
    assert_error(&err, PST_ESCHEDULE, "", 0, "a fault");
}
END_TEST

START_TEST(the_first_error_wins)
{
    pst_error err = PST_ERROR_INIT;
    pst_error_set_at(&err, PST_EIO, "a", 1, "first");
    ck_assert_int_eq(pst_error_set(&err, PST_EINVAL, "second"), PST_EINVAL);
    ck_assert_int_eq(pst_error_set_at(&err, PST_EFORMAT, "b", 2, "third"), PST_EFORMAT);
    ck_assert_int_eq(pst_error_no_memory(&err, "a row", 1), PST_ENOMEM);
    assert_error(&err, PST_EIO, "a", 1, "first");
}
END_TEST

START_TEST(null_is_allowed)
{
    ck_assert_int_eq(pst_error_set(NULL, PST_EINVAL, "lost"), PST_EINVAL);
    ck_assert_int_eq(pst_error_set_at(NULL, PST_EIO, "a", 1, "lost"), PST_EIO);
    ck_assert_int_eq(pst_error_no_memory(NULL, "a row", 1), PST_ENOMEM);
}
END_TEST

START_TEST(too_much_text_is_cut)
{
    pst_error err = PST_ERROR_INIT;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    pst_error_set_at(&err, PST_EIO, text, 1, "%s", text);
    ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
    ck_assert_uint_eq(strlen(err.file), sizeof err.file - 1);
    ck_assert_int_eq(strncmp(err.text, text, sizeof err.text - 1), 0);
}
END_TEST

START_TEST(no_memory_says_what_for)
{
    pst_error err = PST_ERROR_INIT;
    pst_error_no_memory(&err, "a schedule", 18446744073709551615ull);
    assert_error(&err, PST_ENOMEM, "", 0,
                 "no memory for a schedule (18446744073709551615 bytes)");
}
END_TEST

static const char *const status_texts[] = {
    "success",
    "invalid argument",
    "out of memory",
    "input or output failed",
    "malformed file",
    "invalid schedule",
    "deadlock",
    "stage failed",
    "timed out",
    "not a finite number",
    "the system refused",
    "another process failed",
};

START_TEST(each_status_has_its_text)
{
    ck_assert_uint_eq(sizeof status_texts / sizeof *status_texts, PST_STATUS_COUNT);
    ck_assert_str_eq(pst_status_text((pst_status)_i), status_texts[_i]);
}
END_TEST

START_TEST(no_status_has_no_text)
{
    ck_assert_str_eq(pst_status_text(PST_STATUS_COUNT), "unknown status");
    ck_assert_str_eq(pst_status_text((pst_status)1000), "unknown status");
    ck_assert_str_eq(pst_status_text((pst_status)-1), "unknown status");
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("error");
    TCase *set = tcase_create("set");
    tcase_add_test(set, set_fills_everything);
    tcase_add_test(set, set_at_names_the_place);
    tcase_add_test(set, set_at_without_a_file);
    tcase_add_test(set, the_first_error_wins);
    tcase_add_test(set, null_is_allowed);
    tcase_add_test(set, too_much_text_is_cut);
    tcase_add_test(set, no_memory_says_what_for);
    suite_add_tcase(suite, set);

    TCase *text = tcase_create("text");
    tcase_add_loop_test(text, each_status_has_its_text, 0, PST_STATUS_COUNT);
    tcase_add_test(text, no_status_has_no_text);
    suite_add_tcase(suite, text);
    return suite;
}
