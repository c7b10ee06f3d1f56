/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_data_parallel.c - copies of a pipeline that share a batch: the same bits each
 * time and for every cut and list, the gradients of one copy but for rounding, and
 * weights that stay the same in all copies.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <penstock/registry.h>

#include "model/trainer_state.h"
#include "tests/model/support.h"
#include "tests/suite.h"

static const pst_adamw optimizer = {
    .lr = 1e-2, .min_lr = -1, .weight_decay = 0.1, .clip = 1, .warmup = 2, .steps = 6};

/* A batch that neither copies nor microbatches divide. */
static small shape_of(const char *schedule, int stages, int copies, int kind)
{
    return (small){
        .schedule = schedule,
        .stages = stages,
        .microbatches = 2,
        .data_parallel = copies,
        .batch = 11,
        .seed = 3,
        .team = 1,
        .model = {.untied = kind & 1, .bias = kind & 1, .dropout = kind & 2 ? 0.2f : 0},
        .optimizer = optimizer};
}

static void digest_after(const small *how, int steps, char *hex)
{
    pst_trainer *trainer = small_trainer(how);
    for (int step = 0; step < steps; step++)
        step_of(trainer, how, (uint64_t)step);
    pst_trainer_digest(trainer, hex);
    pst_trainer_destroy(trainer);
}

/* Loop variables: copies; tied or untied, with and without dropout. */
START_TEST(bits_depend_on_copies_and_shares_alone)
{
    static const int shares[][4] = {{1, 1, 1, 1}, {3, 1, 2, 1}};
    static const struct {
        const char *schedule;
        int stages, chunks;
    } lists[] = {{"gpipe", 1, 1}, {"gpipe", 3, 1},       {"1f1b", 2, 1},
                 {"1f1b", 4, 1},  {"interleaved", 4, 2}, {"zb-h1", 4, 1},
                 {"zb-v", 4, 2},  {"bpipe", 4, 1}};
    const int copies = 2 + _i / 4;
    char digest[2][65];
    for (int uneven = 0; uneven < 2; uneven++)
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            char other[65];
            small how = shape_of(lists[i].schedule, lists[i].stages, copies, _i % 4);
            how.chunks = lists[i].chunks;
            how.shares = uneven ? shares[1] : i % 2 ? shares[0] : NULL;
            how.delay_seed = i;
            digest_after(&how, 2, i == 0 ? digest[uneven] : other);
            if (i > 0)
                ck_assert_str_eq(digest[uneven], other);
        }
    ck_assert_str_ne(digest[0], digest[1]);
}
END_TEST

/* Loop variable: copies. Kinds with replicas of their own too. */
START_TEST(replicas_within_copies_repeat_themselves)
{
    static const char *const names[] = {"dualpipe", "chimera"};
    for (int i = 0; i < 2; i++) {
        char first[65], again[65];
        small how = shape_of(names[i], 4, _i, 0);
        how.chunks = 2;
        how.microbatches = 4;
        how.batch = 17;
        digest_after(&how, 3, first);
        how.delay_seed = 5;
        digest_after(&how, 3, again);
        ck_assert_str_eq(first, again);
    }
}
END_TEST

/* Each element within 1e-6 of its tensor's largest. */
static void compare_gradients(const pst_trainer *a, const pst_trainer *b)
{
    size_t count;
    const pst_tensor *x = pst_trainer_gradients(a, &count);
    const pst_tensor *y = pst_trainer_gradients(b, &count);
    for (size_t i = 0; i < count; i++) {
        float largest = 0, error = 0;
        for (size_t k = 0; k < x[i].count; k++) {
            largest = fmaxf(largest, fabsf(x[i].data[k]));
            error = fmaxf(error, fabsf(x[i].data[k] - y[i].data[k]));
        }
        ck_assert_msg(error <= 1e-6f * largest, "%s: %g of %g", x[i].name,
                      (double)error, (double)largest);
    }
}

static double norm_of(const pst_trainer *trainer)
{
    return trainer->norm;
}

/* The norm of the gradient counts each parameter once: one stage, four, copies. The
 * bits of the sum's order do not depend on the stages. Loop variable: tied, untied. */
START_TEST(gradients_and_norm_are_those_of_one_copy)
{
    static const int shares[] = {1, 4, 2, 1};
    const small one = shape_of("1f1b", 1, 1, _i);
    pst_trainer *a = small_trainer(&one);
    const double loss = gradient_of(a, &one, 9);
    for (int copies = 1; copies <= 4; copies++)
        for (int stages = 1; stages <= 4; stages += 3)
            for (int uneven = 0; uneven < 2; uneven++) {
                small how = shape_of("1f1b", stages, copies, _i);
                how.shares = uneven ? shares : NULL;
                pst_trainer *b = small_trainer(&how);
                ck_assert_double_eq_tol(gradient_of(b, &how, 9), loss, 1e-6 * loss);
                compare_gradients(a, b);
                ck_assert_double_eq_tol(norm_of(a), norm_of(b), 1e-6 * norm_of(a));
                if (copies == 1)
                    ck_assert_double_eq(norm_of(a), norm_of(b));
                pst_trainer_destroy(b);
            }
    pst_trainer_destroy(a);
}
END_TEST

/* All copies' weights and moments, and both of a tied matrix. */
static void compare_copies(const pst_trainer *t)
{
    const int last = t->stages - 1;
    const float *first = pst_pipeline_weights(t->pipeline, 0);
    const float *end = pst_pipeline_weights(t->pipeline, last);
    const size_t tied = (size_t)t->model.vocabulary * (size_t)t->model.width;
    if (!t->model.untied)
        ck_assert_int_eq(memcmp(first + t->slices[0].layout.wte,
                                end + t->slices[last].layout.head,
                                tied * sizeof *first),
                         0);
    for (int i = t->stages; i < t->stages * t->replicas; i++) {
        const size_t floats = t->slices[i].layout.weight_floats;
        ck_assert_int_eq(memcmp(pst_pipeline_weights(t->pipeline, i),
                                pst_pipeline_weights(t->pipeline, i % t->stages),
                                floats * sizeof *first),
                         0);
        ck_assert_int_eq(memcmp(pst_pipeline_optimizer(t->pipeline, i),
                                pst_pipeline_optimizer(t->pipeline, i % t->stages),
                                2 * floats * sizeof *first),
                         0);
    }
}

/* From a checkpoint of one copy, twenty steps, and back to one. Loop variables: tied or
 * untied; copies. */
START_TEST(copies_stay_equal)
{
    char *folder = make_folder(), *other = make_folder();
    pst_error err = PST_ERROR_INIT;
    const small one = shape_of("1f1b", 1, 1, _i % 2);
    pst_trainer *start = small_trainer(&one);
    step_of(start, &one, 77);
    ck_assert_int_eq(pst_trainer_save(start, folder, &err), PST_OK);
    for (int stages = 1; stages <= 4; stages++) {
        const small how = shape_of("1f1b", stages, 1 + _i / 2, _i % 2);
        char before[65], after[65];
        pst_trainer *t = small_trainer(&how);
        ck_assert_msg(pst_trainer_resume(t, folder, &err) == PST_OK, "%s", err.text);
        compare_copies(t);
        for (int step = 0; step < 20; step++) {
            step_of(t, &how, (uint64_t)step);
            compare_copies(t);
        }
        ck_assert_int_eq(pst_trainer_save(t, other, &err), PST_OK);
        ck_assert_msg(pst_trainer_resume(start, other, &err) == PST_OK, "%s", err.text);
        ck_assert_str_eq(pst_trainer_digest(t, before),
                         pst_trainer_digest(start, after));
        pst_trainer_destroy(t);
    }
    pst_trainer_destroy(start);
    remove_folder(folder);
    remove_folder(other);
}
END_TEST

static void cut(int batch, int copies, int microbatches, const int *shares,
                const size_t *wanted)
{
    const small how = {.batch = batch,
                       .microbatches = microbatches,
                       .data_parallel = copies,
                       .shares = shares,
                       .team = 1};
    pst_trainer *t = small_trainer(&how);
    for (int i = 0; i < copies * microbatches; i++)
        ck_assert_uint_eq(t->train_first[i + 1] - t->train_first[i], wanted[i]);
    ck_assert_uint_eq(t->train_first[copies * microbatches], batch);
    pst_trainer_destroy(t);
}

START_TEST(batches_are_shared_out)
{
    cut(8, 1, 3, NULL, (const size_t[]){3, 3, 2});
    cut(11, 2, 2, NULL, (const size_t[]){3, 3, 3, 2});
    cut(7, 3, 2, NULL, (const size_t[]){2, 1, 1, 1, 1, 1});
    cut(12, 2, 2, (const int[]){3, 1}, (const size_t[]){5, 4, 2, 1});
    cut(12, 2, 4, (const int[]){9, 1}, (const size_t[]){2, 2, 2, 2, 1, 1, 1, 1});
    cut(10, 3, 1, (const int[]){1, 5, 1}, (const size_t[]){2, 7, 1});
    cut(6, 3, 2, (const int[]){100, 1, 1}, (const size_t[]){1, 1, 1, 1, 1, 1});
}
END_TEST

START_TEST(what_is_refused)
{
    static const int shares[] = {1, 0};
    pst_error err = PST_ERROR_INIT, second = PST_ERROR_INIT;
    pst_trainer *trainer = NULL;
    small how = shape_of("1f1b", 2, 2, 0);
    how.shares = shares;
    ck_assert_int_eq(small_trainer_try(&how, &trainer, &err), PST_EINVAL);
    ck_assert_str_eq(err.text,
                     "copy 1 of the pipeline has a share of 0 in the batch; at "
                     "least 1 would work");
    how = shape_of("1f1b", 2, 6, 0);
    ck_assert_int_eq(small_trainer_try(&how, &trainer, &second), PST_EINVAL);
    ck_assert_str_eq(second.text,
                     "12 microbatches for a batch of 11 sequences; every microbatch "
                     "needs a sequence: at most 11 microbatches work");
}
END_TEST

/* ---- checkpoints of other copies ---------------------------------------------- */

typedef struct ear {
    int lines;
    char last[512];
} ear;

static void listen(void *user, pst_log_level level, const char *line)
{
    ear *e = user;
    (void)level;
    e->lines++;
    snprintf(e->last, sizeof e->last, "%s", line);
}

START_TEST(other_copies_may_go_on)
{
    static const int shares[] = {4, 1};
    char *folder = make_folder(), wanted[512];
    pst_error err = PST_ERROR_INIT;
    ear e = {.lines = 0};
    const pst_env env = {.log = listen, .user = &e};
    small how = shape_of("1f1b", 1, 2, 0);
    pst_trainer *saver = small_trainer(&how);
    step_of(saver, &how, 1);
    ck_assert_int_eq(pst_trainer_save(saver, folder, &err), PST_OK);
    pst_trainer_destroy(saver);
    for (int copies = 1; copies <= 3; copies++)
        for (int uneven = 0; uneven < (copies == 2 ? 2 : 1); uneven++) {
            how = shape_of("1f1b", 1, copies, 0);
            how.shares = uneven ? shares : NULL;
            how.env = &env;
            pst_trainer *t = small_trainer(&how);
            e = (ear){.lines = 0};
            ck_assert_msg(pst_trainer_resume(t, folder, &err) == PST_OK, "%s",
                          err.text);
            ck_assert_int_eq(e.lines, copies != 2 || uneven);
            snprintf(
                wanted, sizeof wanted,
                "%s/step-00000001: the checkpoint has %s and this run %s; the bits "
                "will differ from those of the unbroken run",
                folder, uneven ? "shares equal" : "data_parallel 2",
                uneven        ? "9,2"
                : copies == 1 ? "1"
                              : "3");
            if (e.lines > 0)
                ck_assert_str_eq(e.last, wanted);
            pst_trainer_destroy(t);
        }
    remove_folder(folder);
}
END_TEST

/* All windows count, and count once, however many replicas there are. */
START_TEST(evaluation_sees_every_window)
{
    enum { WINDOWS = 53, CONTEXT = 8 };
    int32_t ids[2 * WINDOWS * CONTEXT];
    double first = 0;
    random_ids(ids, 2 * WINDOWS * CONTEXT, 32, 4);
    for (int copies = 1; copies <= 5; copies++) {
        small how = shape_of("1f1b", 2, copies, 0);
        how.team = 1;
        pst_error err = PST_ERROR_INIT;
        double sum;
        int64_t tokens;
        pst_trainer *t = small_trainer(&how);
        ck_assert_msg(pst_trainer_evaluate(t, WINDOWS, ids, ids + WINDOWS * CONTEXT,
                                           &sum, &tokens, &err) == PST_OK,
                      "%s", err.text);
        ck_assert_int_eq(tokens, WINDOWS * CONTEXT);
        first = copies == 1 ? sum : first;
        ck_assert_double_eq_tol(sum, first, 1e-9 * first);
        pst_trainer_destroy(t);
    }
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("data_parallel");
    TCase *all = tcase_create("data_parallel");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, bits_depend_on_copies_and_shares_alone, 0, 12);
    tcase_add_loop_test(all, replicas_within_copies_repeat_themselves, 2, 5);
    tcase_add_loop_test(all, gradients_and_norm_are_those_of_one_copy, 0, 2);
    tcase_add_loop_test(all, copies_stay_equal, 0, 6);
    tcase_add_test(all, batches_are_shared_out);
    tcase_add_test(all, what_is_refused);
    tcase_add_test(all, other_copies_may_go_on);
    tcase_add_test(all, evaluation_sees_every_window);
    suite_add_tcase(suite, all);
    return suite;
}
