/* SPDX-License-Identifier: BSD-3-Clause */
/* test_digest.c - SHA-256's known answers, and what a digest of tensors depends on. */
#include <string.h>

#include "model/digest.h"
#include "tests/suite.h"

START_TEST(known_answers_come_out)
{
    char text[PST_DIGEST_TEXT_SIZE];
    ck_assert_str_eq(
        pst__digest_bytes("", 0, text),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ck_assert_str_eq(
        pst__digest_bytes("abc", 3, text),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

START_TEST(parts_give_the_whole)
{
    pst__digest digest;
    char parts[PST_DIGEST_TEXT_SIZE], whole[PST_DIGEST_TEXT_SIZE];
    pst__digest_begin(&digest);
    pst__digest_add(&digest, "a", 1);
    pst__digest_add(&digest, "", 0);
    pst__digest_add(&digest, "bc", 2);
    ck_assert_str_eq(pst__digest_end(&digest, parts),
                     pst__digest_bytes("abc", 3, whole));
}
END_TEST

START_TEST(names_shapes_and_every_bit_count)
{
    float data[6] = {1, 2, 3, 4, 5, 6};
    pst_tensor t = {.name = "x", .dims = 2, .shape = {2, 3}, .count = 6, .data = data};
    char first[PST_DIGEST_TEXT_SIZE], other[PST_DIGEST_TEXT_SIZE];
    pst__digest_tensors(&t, 1, first);
    t.shape[0] = 3, t.shape[1] = 2;
    ck_assert_str_ne(pst__digest_tensors(&t, 1, other), first);
    t.shape[0] = 2, t.shape[1] = 3;
    strcpy(t.name, "y");
    ck_assert_str_ne(pst__digest_tensors(&t, 1, other), first);
    strcpy(t.name, "x");
    ck_assert_str_eq(pst__digest_tensors(&t, 1, other), first);
    data[5] = -6;
    ck_assert_str_ne(pst__digest_tensors(&t, 1, other), first);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("digest");
    TCase *all = tcase_create("all");
    tcase_add_test(all, known_answers_come_out);
    tcase_add_test(all, parts_give_the_whole);
    tcase_add_test(all, names_shapes_and_every_bit_count);
    suite_add_tcase(suite, all);
    return suite;
}
