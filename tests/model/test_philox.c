/* SPDX-License-Identifier: BSD-3-Clause */
/* test_philox.c - the paper's known answers, and what normal numbers look like. */
#include <math.h>
#include <stdlib.h>

#include "model/philox.h"
#include "tests/suite.h"

/* Random123's known-answer vectors of philox4x32-10. */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_answers_come_out)
{
    uint32_t out[4];
    pst__philox(known[_i].counter, known[_i].key, out);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(out[i], known[_i].out[i]);
}
END_TEST

START_TEST(normal_numbers_are_normal)
{
    enum { COUNT = 100003 };
    float *x = malloc(COUNT * sizeof *x);
    double sum = 0, squares = 0;
    pst__philox_normal(1, 2, 0.5f, x, COUNT);
    for (int i = 0; i < COUNT; i++) {
        sum += x[i];
        squares += (double)x[i] * (double)x[i];
    }
    ck_assert_double_eq_tol(sum / COUNT, 0, 0.01);
    ck_assert_double_eq_tol(sqrt(squares / COUNT), 0.5, 0.01);
    free(x);
}
END_TEST

START_TEST(seed_and_tensor_make_a_difference_and_length_does_not)
{
    float a[10], b[10];
    pst__philox_normal(1, 2, 1, a, 10);
    pst__philox_normal(1, 2, 1, b, 7);
    ck_assert_mem_eq(a, b, 7 * sizeof *a);
    pst__philox_normal(1, 3, 1, b, 10);
    ck_assert_mem_ne(a, b, sizeof a);
    pst__philox_normal(2, 2, 1, b, 10);
    ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("philox");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, known_answers_come_out, 0, sizeof known / sizeof *known);
    tcase_add_test(all, normal_numbers_are_normal);
    tcase_add_test(all, seed_and_tensor_make_a_difference_and_length_does_not);
    suite_add_tcase(suite, all);
    return suite;
}
