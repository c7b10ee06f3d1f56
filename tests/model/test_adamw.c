/* SPDX-License-Identifier: BSD-3-Clause */
/* test_adamw.c - rates, clipping, and AdamW's step against the formula in double. */
#include <math.h>
#include <string.h>

#include "model/adamw.h"
#include "tests/suite.h"

START_TEST(rates_rise_then_follow_a_cosine)
{
    const pst_adamw a = {.lr = 1, .min_lr = 0.1, .warmup = 4, .steps = 12};
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 0), 0.25, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 3), 1, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 4), 1, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 8), 0.55, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 12), 0.1, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 1000), 0.1, 1e-12);
}
END_TEST

START_TEST(without_a_horizon_the_rate_is_constant)
{
    const pst_adamw a = {.lr = 1, .min_lr = 0.1, .warmup = 2};
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 0), 0.5, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 2), 1, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 100000), 1, 1e-12);
}
END_TEST

START_TEST(a_horizon_within_the_warm_up_is_no_division_by_zero)
{
    const pst_adamw a = {.lr = 1, .min_lr = 0.1, .warmup = 4, .steps = 4};
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 3), 1, 1e-12);
    ck_assert_double_eq_tol(pst__adamw_rate(&a, 4), 0.1, 1e-12);
}
END_TEST

START_TEST(large_gradients_are_clipped)
{
    const pst_adamw a = {.clip = 2}, any = {.clip = 0};
    ck_assert_double_eq(pst__adamw_clip(&a, 1), 1);
    ck_assert_double_eq_tol(pst__adamw_clip(&a, 8), 0.25, 1e-6);
    ck_assert_double_eq(pst__adamw_clip(&any, 1e9), 1);
}
END_TEST

START_TEST(defaults_are_filled_in)
{
    pst_adamw a = {.min_lr = -1};
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst__adamw_complete(&a, &err), PST_OK);
    ck_assert_double_eq(a.lr, 1e-3);
    ck_assert_double_eq_tol(a.min_lr, 1e-4, 1e-12);
    ck_assert_double_eq(a.beta1, 0.9);
    ck_assert_double_eq(a.beta2, 0.99);
    ck_assert_double_eq(a.epsilon, 1e-8);
}
END_TEST

static const struct {
    pst_adamw adamw;
    const char *text;
} refused[] = {
    {{.lr = -1}, "learning rate -1; it must be 0 or more"},
    {{.lr = INFINITY}, "learning rate inf; it must be 0 or more"},
    {{.beta1 = 1}, "beta1 1; it must be above 0 and below 1"},
    {{.beta2 = -0.5}, "beta2 -0.5; it must be above 0 and below 1"},
    {{.epsilon = -1}, "epsilon -1; it must be 0 or more"},
    {{.weight_decay = NAN}, "weight decay nan; it must be 0 or more"},
    {{.clip = -2}, "clip -2; it must be 0 or more"},
    {{.warmup = -1}, "warm-up -1; it must be 0 or more"},
    {{.steps = -1}, "steps -1; it must be 0 or more"},
};

START_TEST(nonsense_is_refused)
{
    pst_adamw a = refused[_i].adamw;
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst__adamw_complete(&a, &err), PST_EINVAL);
    ck_assert_str_eq(err.text, refused[_i].text);
}
END_TEST

/* torch.optim.AdamW in double on one element. */
typedef struct element {
    double w, m, v;
} element;

static void due_step(element *e, double g, const pst_adamw *a, int64_t step,
                     double clip, int decays)
{
    const double rate = pst__adamw_rate(a, step), t = (double)(step + 1);
    g *= clip;
    e->m = a->beta1 * e->m + (1 - a->beta1) * g;
    e->v = a->beta2 * e->v + (1 - a->beta2) * g * g;
    e->w *= 1 - (decays ? rate * a->weight_decay : 0);
    e->w -= rate * (e->m / (1 - pow(a->beta1, t))) /
            (sqrt(e->v / (1 - pow(a->beta2, t))) + a->epsilon);
}

enum { COUNT = 37 };

START_TEST(steps_follow_the_formula)
{
    pst_adamw a = {
        .lr = 0.01, .min_lr = 0.001, .weight_decay = 0.1, .warmup = 3, .steps = 9};
    const int decays = _i;
    const pst_parameter p = {.tensor = {.count = COUNT, .dims = 1}, .decays = decays};
    float w[COUNT], g[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
    element due[COUNT];
    ck_assert_int_eq(pst__adamw_complete(&a, NULL), PST_OK);
    for (int k = 0; k < COUNT; k++) {
        w[k] = 0.1f * (float)(k - 18);
        due[k] = (element){w[k], 0, 0};
    }
    for (int64_t step = 0; step < 12; step++) {
        pst__adamw_numbers numbers;
        pst__adamw_numbers_init(&numbers, &a, step, step);
        numbers.clip = 0.5f;
        for (int k = 0; k < COUNT; k++) {
            g[k] = (float)sin(k * 0.7 + (double)step);
            due_step(&due[k], g[k], &a, step, 0.5, decays);
        }
        pst__adamw_step(NULL, &numbers, &p, 1, w, g, m, v, COUNT);
    }
    for (int k = 0; k < COUNT; k++)
        ck_assert_double_eq_tol(w[k], due[k].w, 2e-6);
}
END_TEST

START_TEST(a_copy_without_weights_is_passed_over)
{
    const pst_adamw a = {.lr = 1, .beta1 = 0.9, .beta2 = 0.9, .epsilon = 1e-8};
    const pst_parameter p[2] = {
        {.tensor = {.count = 16}},
        {.tensor = {.count = 16}, .offset = 16, .tied_copy = 1}};
    float w[32] = {0}, g[32], m[16] = {0}, v[16] = {0};
    double squares[2] = {-1, -1};
    pst__adamw_numbers numbers;
    for (int k = 0; k < 32; k++)
        g[k] = 2;
    pst__adamw_numbers_init(&numbers, &a, 0, 0);
    pst__adamw_squares(NULL, squares, p, 2, g);
    ck_assert_double_eq(squares[0], 64);
    ck_assert_double_eq(squares[1], -1);
    pst__adamw_step(NULL, &numbers, p, 2, w, g, m, v, 16);
    ck_assert_float_ne(w[15], 0);
    ck_assert_float_eq(w[16], 0);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("adamw");
    TCase *all = tcase_create("all");
    tcase_add_test(all, rates_rise_then_follow_a_cosine);
    tcase_add_test(all, without_a_horizon_the_rate_is_constant);
    tcase_add_test(all, a_horizon_within_the_warm_up_is_no_division_by_zero);
    tcase_add_test(all, large_gradients_are_clipped);
    tcase_add_test(all, defaults_are_filled_in);
    tcase_add_loop_test(all, nonsense_is_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_loop_test(all, steps_follow_the_formula, 0, 2);
    tcase_add_test(all, a_copy_without_weights_is_passed_over);
    suite_add_tcase(suite, all);
    return suite;
}
