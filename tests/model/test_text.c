/* SPDX-License-Identifier: BSD-3-Clause */
/* test_text.c - parts of a text, random windows, held-out windows, bad texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/text.h>

#include "tests/model/support.h"
#include "tests/suite.h"

static char *folder;
static const char *path;

static void set_up(void)
{
    folder = make_folder();
    path = strdup(in_folder(folder, "text.txt"));
}

static void tear_down(void)
{
    free((char *)path);
    remove_folder(folder);
}

/* Byte i is i % 251. */
static pst_text *open_counting(size_t bytes, double val_fraction, int context)
{
    unsigned char *data = malloc(bytes);
    pst_text *text = NULL;
    pst_error err = PST_ERROR_INIT;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i % 251);
    write_file(path, data, bytes);
    free(data);
    ck_assert_msg(pst_text_open(NULL, path, val_fraction, context, 256, &text, &err) ==
                      PST_OK,
                  "%s", err.text);
    return text;
}

START_TEST(the_last_part_is_held_out)
{
    pst_text *text = open_counting(1003, 0.1, 8);
    ck_assert_uint_eq(pst_text_train_bytes(text), 902);
    ck_assert_uint_eq(pst_text_val_bytes(text), 101);
    ck_assert_uint_eq(pst_text_bytes(text)[1002], 1002 % 251);
    pst_text_close(text);
}
END_TEST

/* Every byte of the held-out part but the first is a label exactly once. */
START_TEST(held_out_windows_cover_each_label_once)
{
    for (size_t val = 9; val < 40; val++) {
        const size_t bytes = 100;
        pst_text *text = open_counting(bytes, (double)val / (double)bytes, 8);
        const size_t train = pst_text_train_bytes(text),
                     held = pst_text_val_bytes(text);
        int32_t inputs[8], labels[8];
        size_t seen = 0;
        for (size_t window = 0;; window++) {
            const int valid = pst_text_window(text, window, inputs, labels);
            for (int i = 0; i < 8; i++)
                if (i < valid) {
                    ck_assert_int_eq(inputs[i], (int)((train + seen) % 251));
                    ck_assert_int_eq(labels[i], (int)((train + ++seen) % 251));
                } else if (valid > 0) {
                    ck_assert_int_eq(inputs[i], 0);
                    ck_assert_int_eq(labels[i], PST_IGNORED_LABEL);
                }
            if (valid == 0)
                break;
        }
        ck_assert_uint_eq(seen, held - 1);
        pst_text_close(text);
    }
}
END_TEST

START_TEST(samples_depend_on_seed_step_and_place_alone)
{
    pst_text *text = open_counting(5000, 0.1, 16);
    int32_t a[4 * 16], b[4 * 16], labels[4 * 16];
    pst_text_sample(text, 7, 3, 4, a, labels);
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(labels[i], (a[i] + 1) % 251);
    pst_text_sample(text, 7, 3, 2, b, labels);
    ck_assert_mem_eq(a, b, 2 * 16 * sizeof *a);
    pst_text_sample(text, 7, 4, 4, b, labels);
    ck_assert_mem_ne(a, b, sizeof a);
    pst_text_sample(text, 8, 3, 4, b, labels);
    ck_assert_mem_ne(a, b, sizeof a);
    pst_text_close(text);
}
END_TEST

/* All windows come up, the first and the last too, and none reaches the held-out part.
 */
START_TEST(samples_come_from_the_whole_training_part)
{
    pst_text *text = open_counting(40, 0.25, 4);
    int count[40] = {0};
    for (int step = 0; step < 4000; step++) {
        int32_t inputs[4], labels[4];
        pst_text_sample(text, 1, step, 1, inputs, labels);
        ck_assert_int_le(labels[3], 29);
        count[inputs[0]]++;
    }
    for (int i = 0; i < 26; i++)
        ck_assert_msg(count[i] > 80, "window %d came up %d times", i, count[i]);
    pst_text_close(text);
}
END_TEST

START_TEST(a_text_that_just_fits_has_one_window)
{
    pst_text *text = open_counting(9, 0, 8);
    int32_t inputs[8], labels[8];
    pst_text_sample(text, 1, 0, 1, inputs, labels);
    ck_assert_int_eq(inputs[0], 0);
    ck_assert_int_eq(labels[7], 8);
    ck_assert_int_eq(pst_text_window(text, 0, inputs, labels), 0);
    pst_text_close(text);
}
END_TEST

static void check_refused(const void *data, size_t bytes, double fraction,
                          int vocabulary, const char *text)
{
    char whole[512];
    pst_error err = PST_ERROR_INIT;
    pst_text *out = NULL;
    write_file(path, data, bytes);
    ck_assert_int_eq(pst_text_open(NULL, path, fraction, 8, vocabulary, &out, &err),
                     PST_EINVAL);
    snprintf(whole, sizeof whole, "%s: %s", path, text);
    ck_assert_str_eq(err.text, whole);
    ck_assert_ptr_null(out);
}

START_TEST(short_texts_are_refused)
{
    check_refused("", 0, 0.1, 256,
                  "the file is empty; a text of more than 8 bytes would work");
    check_refused(
        "12345678", 8, 0, 256,
        "the training part has 8 bytes; a context of 8 needs 9. A longer text or "
        "a smaller context would work");
    check_refused(
        "123456789012345678901234567890", 30, 0.1, 256,
        "the held-out part has 3 bytes; a context of 8 needs 9. A longer text or "
        "a smaller context would work");
}
END_TEST

START_TEST(bytes_beyond_the_vocabulary_are_named)
{
    check_refused(
        "aaaaaaaaaa\nbbb\xc3\xa4zzzzzzzzzzzz", 28, 0, 128,
        "byte 14, in line 2, is 195; a vocabulary of 128 has tokens 0 to 127, and "
        "one of 256 takes every byte");
}
END_TEST

START_TEST(files_that_cannot_be_read_are_named)
{
    pst_error err = PST_ERROR_INIT;
    pst_text *out = NULL;
    ck_assert_int_eq(
        pst_text_open(NULL, in_folder(folder, "none"), 0.1, 8, 256, &out, &err),
        PST_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_text_open(NULL, folder, 0.1, 8, 256, &out, &err), PST_EIO);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("text");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_test(all, the_last_part_is_held_out);
    tcase_add_test(all, held_out_windows_cover_each_label_once);
    tcase_add_test(all, samples_depend_on_seed_step_and_place_alone);
    tcase_add_test(all, samples_come_from_the_whole_training_part);
    tcase_add_test(all, a_text_that_just_fits_has_one_window);
    tcase_add_test(all, short_texts_are_refused);
    tcase_add_test(all, bytes_beyond_the_vocabulary_are_named);
    tcase_add_test(all, files_that_cannot_be_read_are_named);
    suite_add_tcase(suite, all);
    return suite;
}
