/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_reference.c - loss, every gradient and ten AdamW steps against values that
 * PyTorch and Hugging Face's GPT-2 computed (tests/data/models).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/reference.h>
#include <penstock/registry.h>
#include <penstock/safetensors.h>

#include "tests/model/support.h"
#include "tests/suite.h"

static const char stem_name[] = "models/gpt2-tiny";

typedef struct fixture {
    pst_reference *reference;
    pst_trainer *trainer;
    pst_safetensors *expected;
} fixture;

static void must(pst_status status, const pst_error *err)
{
    ck_assert_msg(status == PST_OK, "%s", err->text);
}

static fixture open_fixture(const char *schedule_name, int stages)
{
    fixture f;
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule;
    must(pst_reference_open(NULL, data_file(stem_name), &f.reference, &err), &err);
    const pst_shape shape = {.ranks = stages, .microbatches = f.reference->sequences};
    must(pst_schedule_create(NULL, schedule_name, &shape, &schedule, &err), &err);
    const pst_trainer_options options = {.model = f.reference->model,
                                         .optimizer = f.reference->optimizer,
                                         .batch = f.reference->sequences,
                                         .schedule = schedule};
    must(pst_trainer_create(NULL, &options, &f.trainer, &err), &err);
    pst_schedule_destroy(schedule);
    must(pst_trainer_load_weights(f.trainer, data_file("models/gpt2-tiny.safetensors"),
                                  &err),
         &err);
    must(pst_safetensors_open(NULL, data_file("models/gpt2-tiny.expected.safetensors"),
                              &f.expected, &err),
         &err);
    return f;
}

static void close_fixture(fixture *f)
{
    pst_safetensors_close(f->expected);
    pst_trainer_destroy(f->trainer);
    pst_reference_close(NULL, f->reference);
}

/* Largest difference over the largest expected element. */
static void compare(const char *name, const float *found, const float *expected,
                    size_t count)
{
    double largest = 0, worst = 0;
    for (size_t k = 0; k < count; k++) {
        largest = fmax(largest, fabs((double)expected[k]));
        worst = fmax(worst, fabs((double)found[k] - (double)expected[k]));
    }
    const double limit = largest < 1e-12 ? 1e-6 : 1e-4 * largest;
    ck_assert_msg(worst <= limit, "%s: off by %g, limit %g", name, worst, limit);
}

static void compare_gradients(const fixture *f)
{
    size_t count;
    const pst_tensor *gradients = pst_trainer_gradients(f->trainer, &count);
    ck_assert_uint_gt(count, 10);
    for (size_t i = 0; i < count; i++) {
        char name[128];
        pst_error err = PST_ERROR_INIT;
        snprintf(name, sizeof name, "grad.%s", gradients[i].name);
        const long index = pst_safetensors_find(f->expected, name);
        ck_assert_msg(index >= 0, "%s is not in the file", name);
        float *expected = malloc(gradients[i].count * sizeof *expected);
        must(pst_safetensors_read(f->expected, (size_t)index, expected, &err), &err);
        compare(name, gradients[i].data, expected, gradients[i].count);
        free(expected);
    }
}

static void check_reference(const char *schedule, int stages)
{
    fixture f = open_fixture(schedule, stages);
    const pst_reference *r = f.reference;
    pst_error err = PST_ERROR_INIT;
    pst_step_report report;
    must(pst_trainer_gradient(f.trainer, r->inputs, r->labels, &report, &err), &err);
    ck_assert_msg(fabs(report.loss - r->loss) <= 1e-4 * r->loss, "loss %g, expected %g",
                  report.loss, r->loss);
    ck_assert_msg(fabs(report.gradient_norm - r->gradient_norm) <=
                      1e-4 * r->gradient_norm,
                  "norm %g, expected %g", report.gradient_norm, r->gradient_norm);
    compare_gradients(&f);
    ck_assert_int_eq(r->steps, 10);
    for (int step = 0; step < r->steps; step++) {
        must(pst_trainer_step(f.trainer, r->inputs, r->labels, &report, &err), &err);
        ck_assert_msg(fabs(report.loss - r->losses[step]) <= 1e-4 * r->losses[step],
                      "step %d: loss %g, expected %g", step, report.loss,
                      r->losses[step]);
    }
    close_fixture(&f);
}

START_TEST(gpipe_agrees)
{
    check_reference("gpipe", _i);
}
END_TEST

START_TEST(one_f_one_b_agrees)
{
    check_reference("1f1b", _i);
}
END_TEST

START_TEST(logits_agree)
{
    fixture f = open_fixture("1f1b", 2);
    const pst_reference *r = f.reference;
    const size_t v = (size_t)r->model.vocabulary, t = (size_t)r->model.context;
    const size_t length = (size_t)r->length, rows = (size_t)r->sequences;
    pst_error err = PST_ERROR_INIT;
    float *logits = malloc(rows * t * v * sizeof *logits);
    const long index = pst_safetensors_find(f.expected, "logits");
    ck_assert_int_ge(index, 0);
    const pst_tensor *shape = pst_safetensors_tensor(f.expected, (size_t)index, NULL);
    ck_assert_uint_eq(shape->count, rows * length * v);
    float *expected = malloc(shape->count * sizeof *expected);
    must(pst_safetensors_read(f.expected, (size_t)index, expected, &err), &err);
    must(pst_trainer_logits(f.trainer, r->sequences, r->inputs, logits, &err), &err);
    for (size_t row = 0; row < rows; row++)
        compare("logits", logits + row * t * v, expected + row * length * v,
                length * v);
    free(expected);
    free(logits);
    close_fixture(&f);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("reference");
    TCase *all = tcase_create("gpt2-tiny");
    tcase_set_timeout(all, 240);
    tcase_add_loop_test(all, gpipe_agrees, 1, 5);
    tcase_add_loop_test(all, one_f_one_b_agrees, 1, 5);
    tcase_add_test(all, logits_agree);
    suite_add_tcase(suite, all);
    return suite;
}
