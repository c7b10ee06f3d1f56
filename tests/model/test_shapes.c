/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_shapes.c - odd shapes of a run: few microbatches, microbatches of unequal size,
 * many stages. None hangs, and all learn what one stage does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/registry.h>

#include "tests/model/support.h"
#include "tests/suite.h"

static const pst_adamw optimizer = {.lr = 1e-2, .min_lr = -1, .weight_decay = 0.1};

/* ---- fewer microbatches than ranks --------------------------------------------- */

enum { RANKS = 4 };

static small few_shape(const char *schedule, int stages, int chunks, int microbatches)
{
    return (small){.schedule = schedule,
                   .stages = stages,
                   .chunks = chunks,
                   .microbatches = microbatches,
                   .batch = 8,
                   .seed = 3,
                   .model = {.layers = 2 * RANKS},
                   .optimizer = optimizer};
}

/* Two steps as one stage makes them, with all microbatches of both replicas. */
static double one_stage(int microbatches, char *hex)
{
    const small one = few_shape("1f1b", 1, 1, microbatches);
    pst_trainer *trainer = small_trainer(&one);
    step_of(trainer, &one, 1);
    const double loss = step_of(trainer, &one, 2);
    pst_trainer_digest(trainer, hex);
    pst_trainer_destroy(trainer);
    return loss;
}

/* With one stage a rank, or with two where the kind wants them. False: refused, with a
 * reason. */
static int try_kind(const char *name, int microbatches)
{
    for (int chunks = 1; chunks <= 2; chunks++) {
        const small how = few_shape(name, RANKS * chunks, chunks, microbatches);
        pst_error err = PST_ERROR_INIT;
        pst_trainer *trainer = NULL;
        char due[65], found[65];
        if (small_trainer_try(&how, &trainer, &err) != PST_OK) {
            ck_assert_int_eq(err.status, PST_EINVAL);
            ck_assert_msg(strlen(err.text) > 20, "%s: %s", name, err.text);
            continue;
        }
        const double loss = one_stage(microbatches, due);
        step_of(trainer, &how, 1);
        ck_assert_double_eq_tol(step_of(trainer, &how, 2), loss, 1e-5);
        if (strcmp(name, "dualpipe") != 0 && strcmp(name, "chimera") != 0 &&
            strcmp(name, "seq1f1b") != 0) /* these add up in orders of their own */
            ck_assert_str_eq(pst_trainer_digest(trainer, found), due);
        pst_trainer_destroy(trainer);
        return 1;
    }
    return 0;
}

START_TEST(few_microbatches_do_not_hang)
{
    const char *name = pst_schedule_kind_at((size_t)_i)->name;
    int trained = 0;
    for (int microbatches = 1; microbatches <= RANKS; microbatches++)
        trained += try_kind(name, microbatches);
    if (strcmp(name, "1f1b") == 0 || strcmp(name, "gpipe") == 0 ||
        strcmp(name, "zb-h1") == 0 || strcmp(name, "zb-v") == 0)
        ck_assert_int_eq(trained, RANKS);
}
END_TEST

/* ---- microbatches of unequal size -------------------------------------------------
 */

static const struct {
    int batch, microbatches;
} uneven[] = {{8, 3}, {7, 4}, {5, 4}};

enum { CONTEXT = 8, VOCABULARY = 32, MOST = 8 * CONTEXT };

/* The gradient of one batch, some of whose labels count for nothing. */
static pst_trainer *uneven_gradient(int batch, int microbatches, int stages,
                                    double *loss)
{
    const small how = {.stages = stages,
                       .microbatches = microbatches,
                       .batch = batch,
                       .seed = 3,
                       .model = {.context = CONTEXT, .vocabulary = VOCABULARY},
                       .optimizer = optimizer};
    pst_trainer *trainer = small_trainer(&how);
    pst_step_report report;
    int32_t inputs[MOST], labels[MOST];
    random_ids(inputs, MOST, VOCABULARY, 1);
    random_ids(labels, MOST, VOCABULARY, 2);
    for (int i = 0; i < MOST; i += 5)
        labels[i] = -100;
    for (int i = 2 * CONTEXT; i < 3 * CONTEXT - 1; i++)
        labels[i] = -1;
    /* Another step first, so that buffers hold rows that are not theirs. */
    ck_assert_int_eq(pst_trainer_gradient(trainer, inputs, inputs, &report, NULL),
                     PST_OK);
    ck_assert_int_eq(pst_trainer_gradient(trainer, inputs, labels, &report, NULL),
                     PST_OK);
    *loss = report.loss;
    return trainer;
}

static double largest(const pst_tensor *x, const pst_tensor *y)
{
    double most = 0;
    for (size_t k = 0; k < x->count; k++) {
        const double value = fabs((double)x->data[k] - (y ? (double)y->data[k] : 0.0));
        most = value > most || isnan(value) ? value : most;
    }
    return most;
}

/* At every number of stages as one batch on one stage. */
START_TEST(uneven_microbatches_are_as_one_batch)
{
    const int batch = uneven[_i].batch, microbatches = uneven[_i].microbatches;
    double loss, found;
    size_t count;
    pst_trainer *one = uneven_gradient(batch, 1, 1, &loss);
    const pst_tensor *due = pst_trainer_gradients(one, &count);
    for (int stages = 1; stages <= 4; stages++) {
        pst_trainer *cut = uneven_gradient(batch, microbatches, stages, &found);
        const pst_tensor *gradient = pst_trainer_gradients(cut, &count);
        ck_assert_double_eq_tol(found, loss, 1e-6);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(largest(&gradient[i], &due[i]) <=
                              2e-6 * (largest(&due[i], NULL) + 1e-3),
                          "%s is off by %g of %g", due[i].name,
                          largest(&gradient[i], &due[i]), largest(&due[i], NULL));
        pst_trainer_destroy(cut);
    }
    pst_trainer_destroy(one);
}
END_TEST

START_TEST(an_empty_microbatch_is_refused)
{
    const small how = {.microbatches = 4, .batch = 3};
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = NULL;
    ck_assert_int_eq(small_trainer_try(&how, &trainer, &err), PST_EINVAL);
    ck_assert_str_eq(
        err.text, "4 microbatches for a batch of 3 sequences; every microbatch needs "
                  "a sequence: at most 3 microbatches work");
}
END_TEST

/* ---- many stages -------------------------------------------------------------------
 */

/* More workers than OpenBLAS was built for threads. */
START_TEST(eighty_ranks_are_as_one)
{
    small how = {
        .stages = 80,
        .microbatches = 4,
        .batch = 4,
        .seed = 3,
        .model = {.layers = 80, .heads = 1, .width = 4, .context = 4, .vocabulary = 8},
        .optimizer = optimizer};
    char many[65], one[65];
    for (int i = 0; i < 2; i++) {
        pst_trainer *trainer = small_trainer(&how);
        for (uint64_t step = 0; step < 3; step++)
            step_of(trainer, &how, step);
        pst_trainer_digest(trainer, i == 0 ? many : one);
        pst_trainer_destroy(trainer);
        how.stages = 1;
    }
    ck_assert_str_eq(many, one);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("shapes");
    int kinds = 0;
    while (pst_schedule_kind_at((size_t)kinds) != NULL)
        kinds++;
    TCase *few = tcase_create("few");
    tcase_set_timeout(few, 60);
    tcase_add_loop_test(few, few_microbatches_do_not_hang, 0, kinds);
    suite_add_tcase(suite, few);
    TCase *rest = tcase_create("rest");
    tcase_set_timeout(rest, 120);
    tcase_add_loop_test(rest, uneven_microbatches_are_as_one_batch, 0,
                        sizeof uneven / sizeof *uneven);
    tcase_add_test(rest, an_empty_microbatch_is_refused);
    tcase_add_test(rest, eighty_ranks_are_as_one);
    suite_add_tcase(suite, rest);
    return suite;
}
