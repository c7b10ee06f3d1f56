/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_kernels.c - each level that this CPU has, against sums in double; odd lengths.
 *
 * Backward kernels are tested by test_gradient.c, through whole models.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/kernels.h"
#include "model/layers.h"
#include "model/philox.h"
#include "tests/suite.h"

extern const pst_kernels pst__kernels_portable;
#if PST_X86_LEVELS
extern const pst_kernels pst__kernels_v2, pst__kernels_v3, pst__kernels_v4;
#endif

/* NULL where this CPU lacks it. */
static const pst_kernels *level(int index)
{
#if PST_X86_LEVELS
    const pst_kernels *best = pst__kernels();
    const pst_kernels *const all[] = {&pst__kernels_portable, &pst__kernels_v2,
                                      &pst__kernels_v3, &pst__kernels_v4};
    for (int i = 0; i < 4; i++)
        if (all[i] == best)
            return index <= i ? all[index] : NULL;
#endif
    return index == 0 ? &pst__kernels_portable : NULL;
}
enum { LEVELS = 4 };

static float *numbers(size_t count, float size, uint64_t seed)
{
    float *x = malloc((count + 4) * sizeof *x);
    pst__philox_normal(seed, 1, size, x, count);
    return x;
}

static void close_to(double found, double due, double tolerance, const char *what)
{
    ck_assert_msg(fabs(found - due) <= tolerance * (fabs(due) + 1),
                  "%s: %.9g, due %.9g", what, found, due);
}

static double exact_gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double tanh_gelu(double x)
{
    return 0.5 * x *
           (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
}

static void check_gelu(const pst_kernels *k, int tanh_form)
{
    enum { COUNT = 1013 };
    float x[COUNT], y[COUNT], dx[COUNT], ones[COUNT];
    double (*const gelu)(double) = tanh_form ? tanh_gelu : exact_gelu;
    for (int i = 0; i < COUNT; i++) {
        x[i] = 24.0f * (float)i / COUNT - 12;
        ones[i] = 1;
    }
    k->gelu_forward(y, x, COUNT, tanh_form);
    k->gelu_backward(dx, ones, x, COUNT, tanh_form);
    for (int i = 0; i < COUNT; i++) {
        const double slope = (gelu(x[i] + 1e-5) - gelu(x[i] - 1e-5)) / 2e-5;
        close_to(y[i], gelu(x[i]), 1e-6, "gelu");
        close_to(dx[i], slope, 3e-6, "slope of gelu");
    }
    const float wild[3] = {NAN, INFINITY, -INFINITY};
    float out[3];
    k->gelu_forward(out, wild, 3, tanh_form);
    ck_assert(isnan(out[0]));
    ck_assert(isinf(out[1]) && out[1] > 0);
}

START_TEST(gelu_is_right)
{
    const pst_kernels *k = level(_i);
    if (k == NULL)
        return;
    check_gelu(k, 0);
    check_gelu(k, 1);
}
END_TEST

static void check_norm(const pst_kernels *k, size_t n, size_t c)
{
    float *x = numbers(n * c, 3, c), *gain = numbers(c, 1, 2), *bias = numbers(c, 1, 3);
    float *y = malloc(n * c * sizeof *y), *mean = malloc(n * sizeof *mean);
    float *rstd = malloc(n * sizeof *rstd);
    k->layernorm_forward(y, mean, rstd, x, gain, bias, n, c, 1e-5f);
    for (size_t row = 0; row < n; row++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < c; i++)
            sum += x[row * c + i];
        const double mu = sum / (double)c;
        for (size_t i = 0; i < c; i++)
            squares += (x[row * c + i] - mu) * (x[row * c + i] - mu);
        const double r = 1 / sqrt(squares / (double)c + 1e-5);
        for (size_t i = 0; i < c; i++)
            close_to(y[row * c + i], (x[row * c + i] - mu) * r * gain[i] + bias[i],
                     1e-5, "layer norm");
    }
    free(x), free(gain), free(bias), free(y), free(mean), free(rstd);
}

START_TEST(layer_norm_is_right)
{
    static const size_t widths[] = {1, 2, 15, 16, 17, 64, 100, 128};
    const pst_kernels *k = level(_i);
    for (size_t i = 0; k != NULL && i < sizeof widths / sizeof *widths; i++)
        check_norm(k, 3, widths[i]);
}
END_TEST

static void check_cross_entropy(const pst_kernels *k, size_t v)
{
    enum { ROWS = 3 };
    float *logits = numbers(ROWS * v, 5, v),
          *gradient = malloc(ROWS * v * sizeof *gradient);
    const int32_t labels[ROWS] = {0, -100, (int32_t)v - 1};
    double loss = 1, same = 1, due = 1;
    memcpy(gradient, logits, ROWS * v * sizeof *gradient);
    k->cross_entropy(gradient, labels, ROWS, v, 0.5f, 1, &loss);
    for (size_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (size_t i = 0; i < v; i++)
            sum += exp((double)logits[row * v + i]);
        if (labels[row] >= 0)
            due += log(sum) - logits[row * v + (size_t)labels[row]];
        for (size_t i = 0; i < v; i++) {
            double g =
                exp((double)logits[row * v + i]) / sum - ((int32_t)i == labels[row]);
            close_to(gradient[row * v + i], labels[row] < 0 ? 0 : 0.5 * g, 1e-5,
                     "gradient of the loss");
        }
    }
    close_to(loss, due, 1e-5, "loss");
    k->cross_entropy(logits, labels, ROWS, v, 1, 0, &same);
    ck_assert_double_eq(loss, same);
    free(logits);
    free(gradient);
}

START_TEST(cross_entropy_is_right)
{
    static const size_t sizes[] = {1, 3, 16, 31, 96, 256, 1000};
    const pst_kernels *k = level(_i);
    for (size_t i = 0; k != NULL && i < sizeof sizes / sizeof *sizes; i++)
        check_cross_entropy(k, sizes[i]);
}
END_TEST

START_TEST(softmax_is_causal_and_sums_to_one)
{
    enum { T = 37 };
    const pst_kernels *k = level(_i);
    if (k == NULL)
        return;
    float *scores = numbers(T * T, 4, 9), again[T * T], lse[T];
    memcpy(again, scores, sizeof again);
    k->causal_softmax(scores, lse, 0, T, T, T, 0.25f);
    for (int row = 0; row < T; row++) {
        double sum = 0;
        for (int i = 0; i < T; i++)
            sum += scores[row * T + i];
        close_to(sum, 1, 1e-6, "sum of a row");
        for (int i = row + 1; i < T; i++)
            ck_assert_float_eq(scores[row * T + i], 0);
    }
    k->causal_probabilities(again, lse, 0, T, T, T, 0.25f);
    for (int i = 0; i < T * T; i++)
        close_to(again[i], scores[i], 2e-6, "probability");
    free(scores);
}
END_TEST

/* Great scores do not overflow, small ones do not turn into NaN. */
START_TEST(softmax_takes_any_score)
{
    const pst_kernels *k = level(_i);
    if (k == NULL)
        return;
    float scores[4] = {3e38f, 0, -3e38f, 1e30f}, lse[2];
    k->causal_softmax(scores, lse, 0, 2, 2, 2, 1);
    ck_assert_float_eq(scores[0], 1);
    ck_assert_float_eq(scores[3], 1);
    ck_assert_float_eq_tol(scores[2], 0, 1e-30);
}
END_TEST

START_TEST(sums_have_one_order)
{
    const pst_kernels *k = level(_i);
    if (k == NULL)
        return;
    for (size_t count = 0; count < 70; count++) {
        float *x = numbers(count, 1, 5);
        double due = 0;
        for (size_t i = 0; i < count; i++)
            due += (double)x[i] * (double)x[i];
        close_to(k->sum_squares(x, count), due, 1e-12, "sum of squares");
        ck_assert_double_eq(k->sum_squares(x, count),
                            pst__kernels_portable.sum_squares(x, count));
        free(x);
    }
}
END_TEST

/* Which elements drop depends on their place alone, not on how the array is cut. */
START_TEST(dropout_goes_by_place)
{
    enum { ROW = 45, ROWS = 6 };
    const pst_kernels *k = level(_i);
    if (k == NULL)
        return;
    float ones[ROW * ROWS], whole[ROW * ROWS], part[ROW * ROWS];
    pst_dropout d = {
        .rate = 0.25f, .key = {3, 4}, .step = 5, .sequence = 7, .place = 9};
    int dropped = 0;
    for (int i = 0; i < ROW * ROWS; i++)
        ones[i] = 1;
    k->dropout(whole, ones, ROW * ROWS, ROW, &d);
    for (int row = 0; row < ROWS; row++) {
        pst_dropout own = d;
        own.sequence += (uint32_t)row;
        k->dropout(part + row * ROW, ones, 10, ROW, &own);
        own.element = 10;
        k->dropout(part + row * ROW + 10, ones, ROW - 10, ROW, &own);
    }
    ck_assert_mem_eq(whole, part, sizeof whole);
    for (int i = 0; i < ROW * ROWS; i++) {
        dropped += whole[i] == 0;
        if (whole[i] != 0)
            ck_assert_float_eq_tol(whole[i], 4.0f / 3, 1e-6);
    }
    ck_assert_int_gt(dropped, 40);
    ck_assert_int_lt(dropped, 95);
}
END_TEST

/* Generation runs fewer tokens in what was made for a whole context. */
START_TEST(scratch_of_attention_is_enough_for_fewer_tokens)
{
    for (size_t t = 1; t <= 300; t++)
        for (size_t cut = 0; cut < 2; cut++)
            ck_assert_uint_le(pst__attention_scratch(t, cut * 400, 1),
                              pst__attention_scratch(t + 1, cut * 400, 1));
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *all = tcase_create("levels");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, gelu_is_right, 0, LEVELS);
    tcase_add_loop_test(all, layer_norm_is_right, 0, LEVELS);
    tcase_add_loop_test(all, cross_entropy_is_right, 0, LEVELS);
    tcase_add_loop_test(all, softmax_is_causal_and_sums_to_one, 0, LEVELS);
    tcase_add_loop_test(all, softmax_takes_any_score, 0, LEVELS);
    tcase_add_loop_test(all, sums_have_one_order, 0, LEVELS);
    tcase_add_loop_test(all, dropout_goes_by_place, 0, LEVELS);
    suite_add_tcase(suite, all);
    TCase *sizes = tcase_create("sizes");
    tcase_add_test(sizes, scratch_of_attention_is_enough_for_fewer_tokens);
    suite_add_tcase(suite, sizes);
    return suite;
}
