/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_gradient.c - every gradient against finite differences of the loss.
 *
 * Each tensor is moved along its own gradient g, by e g / |g| both ways; the loss must
 * change by 2 e |g|. And some single elements, one at a time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/support.h"
#include "tests/suite.h"

/* Models and cuts that differ in what their code does. */
static const small cases[] = {
    {.stages = 1},
    {.stages = 3, .microbatches = 3, .batch = 5},
    {.stages = 2, .model = {.bias = 1}},
    {.stages = 1, .model = {.untied = 1, .gelu = PST_GELU_TANH}},
    {.stages = 4,
     .microbatches = 1,
     .model = {.untied = 1, .bias = 1, .gelu = PST_GELU_TANH}},
    {.stages = 2, .model = {.dropout = 0.3f, .bias = 1}},
    {.stages = 1, .model = {.dropout = 0.3f, .heads = 4, .layers = 1}},
    {.stages = 2, .model = {.layers = 3, .width = 24, .heads = 3, .context = 5}},
    {.stages = 1, .batch = 2, .model = {.layers = 1, .context = 150, .dropout = 0.1f}},
    {.stages = 1, .batch = 1, .microbatches = 1, .model = {.layers = 1, .context = 1}},
    {.schedule = "seq1f1b", .stages = 2, .batch = 5, .slices = 3, .model = {.bias = 1}},
    {.schedule = "seq1f1b",
     .stages = 3,
     .slices = 2,
     .model = {.context = 7, .dropout = 0.3f, .untied = 1}},
    {.schedule = "seq1f1b",
     .stages = 1,
     .batch = 2,
     .microbatches = 1,
     .slices = 2,
     .model = {.layers = 1, .context = 150, .dropout = 0.1f}},
};
enum { CASES = sizeof cases / sizeof *cases };

static small completed_case(int index)
{
    small s = cases[index];
    s.schedule = s.schedule ? s.schedule : "1f1b";
    s.batch = s.batch ? s.batch : 4;
    s.microbatches = s.microbatches ? s.microbatches : 2;
    s.model.context = s.model.context ? s.model.context : 8;
    s.model.vocabulary = 32;
    s.seed = 5;
    return s;
}

/* Larger weights than training begins with, so that every path carries something. */
static void enlarge(pst_trainer *trainer)
{
    size_t count;
    const pst_tensor *weights = pst_trainer_weights(trainer, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < weights[i].count; k++)
            if (weights[i].dims == 2)
                weights[i].data[k] *= 8;
            else
                weights[i].data[k] += 0.1f * (float)((k * 7 + i) % 5) - 0.2f;
    pst_trainer_refresh(trainer, NULL);
}

static double loss_of(pst_trainer *trainer, const small *how)
{
    pst_trainer_refresh(trainer, NULL);
    return gradient_of(trainer, how, 11);
}

/* The change of the loss when weights move by +-move[]. */
static double difference(pst_trainer *trainer, const small *how,
                         const pst_tensor *tensor, const float *move)
{
    float *before = malloc(tensor->count * sizeof *before);
    double loss[2];
    memcpy(before, tensor->data, tensor->count * sizeof *before);
    for (int side = 0; side < 2; side++) {
        for (size_t k = 0; k < tensor->count; k++)
            tensor->data[k] = before[k] + (side ? -move[k] : move[k]);
        loss[side] = loss_of(trainer, how);
    }
    memcpy(tensor->data, before, tensor->count * sizeof *before);
    free(before);
    return loss[0] - loss[1];
}

static double length_of(const float *x, size_t count)
{
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += (double)x[k] * (double)x[k];
    return sqrt(sum);
}

static void check_direction(pst_trainer *trainer, const small *how,
                            const pst_tensor *tensor, const float *gradient)
{
    const double length = length_of(gradient, tensor->count), size = 0.02;
    if (length < 1e-3)
        return; /* less than the loss can resolve; the reference test sees it */
    float *move = malloc(tensor->count * sizeof *move);
    for (size_t k = 0; k < tensor->count; k++)
        move[k] = (float)(size * gradient[k] / length);
    const double found = difference(trainer, how, tensor, move),
                 due = 2 * size * length;
    ck_assert_msg(fabs(found - due) <= 0.01 * due + 2e-6,
                  "%s: the loss changes by %g along the gradient, due %g", tensor->name,
                  found, due);
    free(move);
}

static void check_elements(pst_trainer *trainer, const small *how,
                           const pst_tensor *tensor, const float *gradient)
{
    const double size = 0.02;
    double largest = 0;
    for (size_t k = 0; k < tensor->count; k++)
        largest = fmax(largest, fabs((double)gradient[k]));
    float *move = calloc(tensor->count, sizeof *move);
    for (int i = 0; i < 3; i++) {
        const size_t k = (size_t)(i * 7919 + 13) % tensor->count;
        move[k] = (float)size;
        const double slope = difference(trainer, how, tensor, move) / (2 * size);
        ck_assert_msg(fabs(slope - gradient[k]) <= 0.02 * largest + 1e-4,
                      "%s[%zu]: slope %g, gradient %g", tensor->name, k, slope,
                      (double)gradient[k]);
        move[k] = 0;
    }
    free(move);
}

START_TEST(agrees_with_finite_differences)
{
    const small how = completed_case(_i);
    pst_trainer *trainer = small_trainer(&how);
    size_t count;
    const pst_tensor *weights = pst_trainer_weights(trainer, &count);
    const pst_tensor *gradients = pst_trainer_gradients(trainer, &count);
    enlarge(trainer);
    for (size_t i = 0; i < count; i++) {
        loss_of(trainer, &how);
        float *gradient = malloc(gradients[i].count * sizeof *gradient);
        memcpy(gradient, gradients[i].data, gradients[i].count * sizeof *gradient);
        check_direction(trainer, &how, &weights[i], gradient);
        check_elements(trainer, &how, &weights[i], gradient);
        free(gradient);
    }
    pst_trainer_destroy(trainer);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("gradient");
    TCase *all = tcase_create("finite differences");
    tcase_set_timeout(all, 240);
    tcase_add_loop_test(all, agrees_with_finite_differences, 0, CASES);
    suite_add_tcase(suite, all);
    return suite;
}
