/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_trainer.c - the same bits for every cut and list; what is refused; what a
 * failed step leaves alone.
 *
 * PST_TEST_DELAYS in the environment gives the number of runs with random delays (40).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/registry.h>

#include "tests/model/support.h"
#include "tests/suite.h"

static const pst_adamw optimizer = {
    .lr = 1e-2, .min_lr = -1, .weight_decay = 0.1, .clip = 1, .warmup = 2, .steps = 6};

static void digest_after(const small *how, int steps, char *hex)
{
    pst_trainer *trainer = small_trainer(how);
    for (int step = 0; step < steps; step++)
        step_of(trainer, how, (uint64_t)step);
    pst_trainer_digest(trainer, hex);
    pst_trainer_destroy(trainer);
}

static small shape_of(const char *schedule, int stages, int untied, float dropout)
{
    return (small){.schedule = schedule,
                   .stages = stages,
                   .microbatches = 3,
                   .batch = 8,
                   .seed = 3,
                   .model = {.context = 8,
                             .vocabulary = 32,
                             .untied = untied,
                             .bias = untied,
                             .dropout = dropout},
                   .optimizer = optimizer};
}

/* Loop variable: tied or untied, with and without dropout. */
START_TEST(bits_do_not_depend_on_the_cut_or_the_list)
{
    const float dropout = _i & 2 ? 0.2f : 0;
    char first[65], other[65];
    small how = shape_of("gpipe", 1, _i & 1, dropout);
    digest_after(&how, 5, first);
    for (int stages = 1; stages <= 4; stages++) {
        how = shape_of("gpipe", stages, _i & 1, dropout);
        digest_after(&how, 5, other);
        ck_assert_str_eq(first, other);
        how = shape_of("1f1b", stages, _i & 1, dropout);
        digest_after(&how, 5, other);
        ck_assert_str_eq(first, other);
    }
    how.seed++;
    digest_after(&how, 5, other);
    ck_assert_str_ne(first, other);
    how.seed--;
    digest_after(&how, 6, other);
    ck_assert_str_ne(first, other);
}
END_TEST

/* Large enough that products, heads, rows and parameters are all cut. Loop variable:
 * with dropout, and with slices of the sequences. */
START_TEST(bits_do_not_depend_on_the_team)
{
    small how = {.schedule = _i & 2 ? "seq1f1b" : "1f1b",
                 .stages = 1,
                 .microbatches = 2,
                 .slices = _i & 2 ? 2 : 0,
                 .batch = 4,
                 .team = 1,
                 .model = {.layers = 2,
                           .heads = 6,
                           .width = 384,
                           .context = 64,
                           .vocabulary = 300,
                           .dropout = _i & 1 ? 0.1f : 0},
                 .optimizer = optimizer};
    char first[65], other[65];
    digest_after(&how, 2, first);
    for (how.stages = 1; how.stages <= 2; how.stages++)
        for (how.team = 2; how.team <= 5; how.team += how.stages) {
            digest_after(&how, 2, other);
            ck_assert_str_eq(first, other);
        }
}
END_TEST

static const struct {
    const char *schedule;
    int stages, chunks;
} kinds[] = {
    {"gpipe", 4, 1},       {"eager-1f1b", 4, 1},     {"interleaved", 4, 2},
    {"looped-bfs", 4, 2},  {"zb-h1", 4, 1},          {"zb-h2", 4, 1},
    {"zb-v", 4, 2},        {"interleaved-zb", 4, 2}, {"dualpipev", 4, 2},
    {"hanayo", 4, 2},      {"hanayo", 4, 4},         {"gis", 4, 2},
    {"interleaved", 3, 3}, {"looped-bfs", 2, 2},     {"bpipe", 4, 1},
    {"zb-1p", 4, 1},       {"zb-2p", 4, 1},          {"zb-v-auto", 4, 2},
    {"v-half", 4, 2},      {"v-min", 4, 2},          {"1f1b-v", 4, 2},
};

static small kind_shape(const char *schedule, int stages, int chunks)
{
    small how = shape_of(schedule, stages, 0, 0);
    how.chunks = chunks;
    how.microbatches = 8;
    return how;
}

START_TEST(every_kind_gives_the_bits_of_one_stage)
{
    const small one = kind_shape("1f1b", 1, 1);
    const small how =
        kind_shape(kinds[_i].schedule, kinds[_i].stages, kinds[_i].chunks);
    char first[65], other[65];
    digest_after(&one, 4, first);
    digest_after(&how, 4, other);
    ck_assert_str_eq(first, other);
}
END_TEST

/* However the ranks' steps fall: 1,000 times with PST_TEST_DELAYS=1000. */
START_TEST(bits_do_not_depend_on_timing)
{
    static const struct {
        const char *schedule;
        int stages, chunks;
    } lists[] = {
        {"1f1b", 4, 1}, {"zb-v", 4, 2}, {"interleaved", 4, 2}, {"bpipe", 4, 1}};
    const char *wanted = getenv("PST_TEST_DELAYS");
    const int cases = wanted ? atoi(wanted) : 40;
    const small one = kind_shape("1f1b", 1, 1);
    char first[65], other[65];
    digest_after(&one, 2, first);
    for (int i = 0; i < cases; i++) {
        const int which = i % 4;
        small how =
            kind_shape(lists[which].schedule, lists[which].stages, lists[which].chunks);
        how.delay_seed = (uint64_t)i + 1;
        digest_after(&how, 2, other);
        ck_assert_str_eq(first, other);
    }
}
END_TEST

static const struct {
    const char *schedule;
    int stages;
} replicated[] = {{"dualpipe", 8}, {"dualpipe", 4}, {"chimera", 8}, {"chimera", 4}};

/* Two replicas add their sums, so only nearly the same; but each run as the last. */
START_TEST(replicas_match_one_stage_and_repeat_themselves)
{
    const small one = kind_shape("1f1b", 1, 1);
    const small how = kind_shape(replicated[_i].schedule, replicated[_i].stages, 2);
    char first[65], again[65];
    size_t count;
    pst_trainer *a = small_trainer(&one), *b = small_trainer(&how);
    for (int step = 0; step < 4; step++)
        ck_assert_double_eq_tol(step_of(a, &one, (uint64_t)step),
                                step_of(b, &how, (uint64_t)step), 1e-5);
    const pst_tensor *x = pst_trainer_weights(a, &count);
    const pst_tensor *y = pst_trainer_weights(b, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < x[i].count; k++)
            ck_assert_float_eq_tol(x[i].data[k], y[i].data[k], 1e-4f);
    pst_trainer_destroy(a);
    pst_trainer_digest(b, first);
    pst_trainer_destroy(b);
    digest_after(&how, 4, again);
    ck_assert_str_eq(first, again);
}
END_TEST

/* A list of one's own: I and W apart, weights last and in descending order. Where
 * sequences are cut it is as if slices were microbatches, but for the order of I. */
static pst_schedule *delayed_weights(int stages, int microbatches, int slices)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder;
    pst_schedule *schedule = NULL;
    const int units = microbatches * slices;
    pst_schedule_builder_create(NULL, stages, stages, units, &builder, &err);
    pst_schedule_builder_set_slices(builder, slices, &err);
    for (int rank = 0; rank < stages; rank++) {
        static const pst_op ops[] = {PST_OP_FORWARD, PST_OP_BACKWARD_INPUT,
                                     PST_OP_BACKWARD_WEIGHT};
        for (int phase = 0; phase < 3; phase++)
            for (int i = 0; i < units; i++) {
                const int last_first = i / slices * slices + slices - 1 - i % slices;
                const int microbatch = phase == 2   ? units - 1 - i
                                       : phase == 1 ? last_first
                                                    : i;
                const pst_action action = {.microbatch = (uint32_t)microbatch,
                                           .stage = (uint16_t)rank,
                                           .op = (uint8_t)ops[phase]};
                pst_schedule_builder_append(builder, rank, action, &err);
            }
    }
    pst_schedule_builder_finish(builder, "delayed weights", NULL, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

/* As digest_after() with another list, which is destroyed. */
static void digest_of_list(const small *how, pst_schedule *schedule, int steps,
                           char *hex)
{
    pst_trainer_options options = {.model = how->model,
                                   .optimizer = how->optimizer,
                                   .batch = how->batch,
                                   .schedule = schedule,
                                   .seed = how->seed};
    options.model.layers = 4;
    options.model.heads = 2;
    options.model.width = 16;
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer;
    ck_assert_msg(pst_trainer_create(NULL, &options, &trainer, &err) == PST_OK, "%s",
                  err.text);
    pst_schedule_destroy(schedule);
    for (int step = 0; step < steps; step++)
        step_of(trainer, how, (uint64_t)step);
    pst_trainer_digest(trainer, hex);
    pst_trainer_destroy(trainer);
}

START_TEST(bits_do_not_depend_on_when_weights_are_due)
{
    const small how = shape_of("1f1b", 2, 0, 0);
    char first[65], other[65];
    digest_after(&how, 3, first);
    digest_of_list(&how, delayed_weights(2, 3, 1), 3, other);
    ck_assert_str_eq(first, other);
}
END_TEST

/* ---- sequences in slices ---------------------------------------------------- */

/* Microbatches of 3, 3 and 2 sequences, of tokens that 3 and 4 do not divide. */
static small sliced_shape(int stages, int slices, int kind)
{
    small how = shape_of(slices > 0 ? "seq1f1b" : "1f1b", stages, kind & 1,
                         kind & 2 ? 0.1f : 0);
    how.model.context = 10;
    how.slices = slices;
    return how;
}

/* Loop variable: slices, tied or untied, with and without dropout. */
START_TEST(bits_do_not_depend_on_the_list_of_slices)
{
    const int slices = 1 + _i / 4, kind = _i % 4;
    small how = sliced_shape(1, slices, kind);
    char first[65], other[65];
    digest_after(&how, 4, first);
    for (int stages = 2; stages <= 4; stages++) {
        how = sliced_shape(stages, slices, kind);
        digest_after(&how, 4, other);
        ck_assert_str_eq(first, other);
        digest_of_list(&how, delayed_weights(stages, 3, slices), 4, other);
        ck_assert_str_eq(first, other);
    }
    how = sliced_shape(2, 0, kind);
    digest_after(&how, 4, other);
    ck_assert_int_eq(strcmp(first, other) == 0, slices == 1);
}
END_TEST

/* Largest difference over the largest element, both of one tensor. */
static void nearly_equal(const pst_tensor *a, const pst_tensor *b, double limit)
{
    double largest = 0, worst = 0;
    for (size_t k = 0; k < a->count; k++) {
        largest = fmax(largest, fabs((double)a->data[k]));
        worst = fmax(worst, fabs((double)a->data[k] - (double)b->data[k]));
    }
    ck_assert_msg(worst <= limit * largest, "%s: off by %g of %g", a->name, worst,
                  largest);
}

/* The same masks too, as elements are counted in whole sequences. */
START_TEST(slices_match_whole_sequences)
{
    const int slices = 2 + _i / 4, kind = _i % 4;
    small how = sliced_shape(2, 0, kind);
    how.optimizer.epsilon = 1e-3; /* else what is nearly 0 moves by its sign */
    small cut = how;
    cut.schedule = "seq1f1b";
    cut.slices = slices;
    pst_trainer *a = small_trainer(&how), *b = small_trainer(&cut);
    size_t count;
    const pst_tensor *x = pst_trainer_gradients(a, &count);
    const pst_tensor *y = pst_trainer_gradients(b, &count);
    ck_assert_double_eq_tol(gradient_of(a, &how, 7), gradient_of(b, &cut, 7), 1e-6);
    for (size_t i = 0; i < count; i++)
        nearly_equal(&x[i], &y[i], 1e-5);
    for (int step = 0; step < 4; step++)
        ck_assert_double_eq_tol(step_of(a, &how, (uint64_t)step),
                                step_of(b, &cut, (uint64_t)step), 1e-6);
    x = pst_trainer_weights(a, &count);
    y = pst_trainer_weights(b, &count);
    for (size_t i = 0; i < count; i++)
        nearly_equal(&x[i], &y[i], 1e-5);
    pst_trainer_destroy(a);
    pst_trainer_destroy(b);
}
END_TEST

/* Slices of one token, and more of them than stages; slices beyond a block of rows. */
START_TEST(slices_of_any_length)
{
    static const struct {
        int context, slices, microbatches, batch;
    } lengths[] = {{4, 4, 1, 3}, {300, 2, 2, 2}, {257, 2, 1, 1}, {400, 3, 1, 2}};
    small how = {
        .stages = 3,
        .microbatches = lengths[_i].microbatches,
        .batch = lengths[_i].batch,
        .model = {.context = lengths[_i].context, .layers = 3, .dropout = 0.1f}};
    small cut = how;
    cut.schedule = "seq1f1b";
    cut.slices = lengths[_i].slices;
    pst_trainer *a = small_trainer(&how), *b = small_trainer(&cut);
    size_t count;
    const pst_tensor *x = pst_trainer_gradients(a, &count);
    const pst_tensor *y = pst_trainer_gradients(b, &count);
    gradient_of(a, &how, 7);
    gradient_of(b, &cut, 7);
    for (size_t i = 0; i < count; i++)
        nearly_equal(&x[i], &y[i], 1e-5);
    pst_trainer_destroy(a);
    pst_trainer_destroy(b);
}
END_TEST

START_TEST(evaluation_and_generation_run_whole_sequences)
{
    const small how = sliced_shape(2, 0, 0), cut = sliced_shape(2, 3, 0);
    enum { WINDOWS = 40 };
    pst_trainer *trainer[2] = {small_trainer(&how), small_trainer(&cut)};
    pst_error err = PST_ERROR_INIT;
    static int32_t ids[2][WINDOWS * 10];
    int32_t text[2][30] = {{5, 6}, {5, 6}};
    double loss[2];
    int64_t tokens;
    random_ids(ids[0], WINDOWS * 10, 32, 1);
    random_ids(ids[1], WINDOWS * 10, 32, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pst_trainer_evaluate(trainer[i], WINDOWS, ids[0], ids[1],
                                              &loss[i], &tokens, &err),
                         PST_OK);
        ck_assert_int_eq(pst_trainer_generate(trainer[i], text[i], 2, 28, 0.8, 7, &err),
                         PST_OK);
        pst_trainer_destroy(trainer[i]);
    }
    ck_assert(loss[0] == loss[1]);
    ck_assert_mem_eq(text[0], text[1], sizeof text[0]);
}
END_TEST

START_TEST(training_lowers_the_loss)
{
    const small how = {.stages = 2,
                       .batch = 4,
                       .model = {.context = 8, .vocabulary = 32},
                       .optimizer = {.lr = 1e-2, .min_lr = -1}};
    pst_trainer *trainer = small_trainer(&how);
    const double first = step_of(trainer, &how, 1);
    ck_assert_msg(fabs(first - log(32)) < 0.2, "the first loss is %g", first);
    double last = first;
    for (int step = 0; step < 60; step++)
        last = step_of(trainer, &how, 1);
    ck_assert_msg(last < 0.5 * first, "from %g to %g", first, last);
    ck_assert_int_eq(pst_trainer_steps(trainer), 61);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(a_report_says_what_a_step_did)
{
    const small how = {
        .stages = 2,
        .batch = 4,
        .model = {.context = 8, .vocabulary = 32},
        .optimizer = {.lr = 1e-2, .min_lr = -1, .warmup = 4, .steps = 10}};
    pst_trainer *trainer = small_trainer(&how);
    pst_error err = PST_ERROR_INIT;
    pst_step_report report;
    int32_t inputs[32], labels[32];
    random_ids(inputs, 32, 32, 1);
    random_ids(labels, 32, 32, 2);
    labels[3] = labels[31] = -100;
    ck_assert_int_eq(pst_trainer_step(trainer, inputs, labels, &report, &err), PST_OK);
    ck_assert_int_eq(report.step, 1);
    ck_assert_int_eq(report.tokens, 30);
    ck_assert_double_eq_tol(report.lr, 1e-2 / 4, 1e-8);
    ck_assert_double_gt(report.gradient_norm, 0);
    ck_assert_double_gt(report.seconds, 0);
    ck_assert_double_gt(report.makespan, 0);
    ck_assert_double_le(report.makespan, report.seconds);
    ck_assert(report.bubble >= 0 && report.bubble < 1);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(a_gradient_changes_no_weight)
{
    const small how = {.stages = 2, .model = {.context = 8, .vocabulary = 32}};
    pst_trainer *trainer = small_trainer(&how);
    char before[65], after[65];
    pst_trainer_digest(trainer, before);
    gradient_of(trainer, &how, 1);
    ck_assert_str_eq(before, pst_trainer_digest(trainer, after));
    ck_assert_int_eq(pst_trainer_steps(trainer), 0);
    pst_trainer_destroy(trainer);
}
END_TEST

/* Losses over any number of windows do not depend on how they are cut. */
START_TEST(evaluation_sums_over_all_windows)
{
    const small how = {.stages = 2, .model = {.context = 8, .vocabulary = 32}};
    enum { WINDOWS = 75 };
    pst_trainer *trainer = small_trainer(&how);
    pst_error err = PST_ERROR_INIT;
    static int32_t ids[2][WINDOWS * 8];
    double whole, sum = 0;
    int64_t tokens, counted = 0;
    random_ids(ids[0], WINDOWS * 8, 32, 1);
    random_ids(ids[1], WINDOWS * 8, 32, 2);
    ids[1][17] = -100;
    ck_assert_int_eq(
        pst_trainer_evaluate(trainer, WINDOWS, ids[0], ids[1], &whole, &tokens, &err),
        PST_OK);
    ck_assert_int_eq(tokens, WINDOWS * 8 - 1);
    for (int i = 0; i < WINDOWS; i++) {
        double part;
        int64_t some;
        ck_assert_int_eq(pst_trainer_evaluate(trainer, 1, ids[0] + 8 * i,
                                              ids[1] + 8 * i, &part, &some, &err),
                         PST_OK);
        sum += part;
        counted += some;
    }
    ck_assert_int_eq(counted, tokens);
    ck_assert_double_eq_tol(whole, sum, 1e-4);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(generation_repeats_itself_and_follows_the_logits)
{
    const small how = {.stages = 2, .model = {.context = 8, .vocabulary = 32}};
    pst_trainer *trainer = small_trainer(&how);
    pst_error err = PST_ERROR_INIT;
    int32_t a[30] = {5, 6}, b[30] = {5, 6}, c[30] = {5, 6}, window[8];
    float logits[8 * 32];
    ck_assert_int_eq(pst_trainer_generate(trainer, a, 2, 28, 0.8, 7, &err), PST_OK);
    ck_assert_int_eq(pst_trainer_generate(trainer, b, 2, 28, 0.8, 7, &err), PST_OK);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_int_eq(pst_trainer_generate(trainer, c, 2, 28, 0.8, 8, &err), PST_OK);
    ck_assert_mem_ne(a, c, sizeof a);
    ck_assert_int_eq(pst_trainer_generate(trainer, a, 2, 28, 0, 7, &err), PST_OK);
    memcpy(window, a + 21, sizeof window);
    ck_assert_int_eq(pst_trainer_logits(trainer, 1, window, logits, &err), PST_OK);
    for (int i = 0; i < 32; i++)
        ck_assert_float_le(logits[7 * 32 + i], logits[7 * 32 + a[29]]);
    ck_assert_int_eq(pst_trainer_generate(trainer, a, 0, 3, 1, 7, &err), PST_EINVAL);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(a_step_that_is_not_finite_changes_nothing)
{
    const small how = {.stages = 2,
                       .model = {.context = 8, .vocabulary = 32},
                       .optimizer = {.lr = 1e-2}};
    pst_trainer *trainer = small_trainer(&how);
    pst_error err = PST_ERROR_INIT;
    pst_step_report report;
    size_t count;
    const pst_tensor *weights = pst_trainer_weights(trainer, &count);
    int32_t ids[32];
    char before[65], after[65];
    step_of(trainer, &how, 1);
    const float good = weights[4].data[0];
    weights[4].data[0] = NAN;
    pst_trainer_digest(trainer, before);
    random_ids(ids, 32, 32, 1);
    ck_assert_int_eq(pst_trainer_step(trainer, ids, ids, &report, &err), PST_ENUMERIC);
    ck_assert_str_eq(
        err.text, "step 2: the loss of microbatch 0 and the gradient of wte.weight "
                  "are not finite; no weight was changed. A lower rate, or clipping, "
                  "would work");
    ck_assert_str_eq(before, pst_trainer_digest(trainer, after));
    ck_assert_int_eq(pst_trainer_steps(trainer), 1);
    weights[4].data[0] = good;
    step_of(trainer, &how, 2);
    pst_trainer_destroy(trainer);
}
END_TEST

START_TEST(ids_outside_the_vocabulary_are_refused)
{
    const small how = {.stages = 2, .model = {.context = 8, .vocabulary = 32}};
    pst_trainer *trainer = small_trainer(&how);
    pst_step_report report;
    int32_t inputs[32] = {0}, labels[32] = {0};
    pst_error err = PST_ERROR_INIT;
    inputs[17] = 32;
    ck_assert_int_eq(pst_trainer_step(trainer, inputs, labels, &report, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text, "sequence 2, token 1 is id 32; ids go from 0 to 31");
    inputs[17] = 0;
    labels[8] = 99;
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_trainer_step(trainer, inputs, labels, &report, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text,
                     "sequence 1, label 0 is id 99; ids go to 31, and negative "
                     "ones are ignored");
    for (int i = 0; i < 32; i++)
        labels[i] = -1;
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_trainer_step(trainer, inputs, labels, &report, &err),
                     PST_EINVAL);
    ck_assert_str_eq(err.text,
                     "the batch has no label to learn from; all are negative");
    pst_trainer_destroy(trainer);
}
END_TEST

static const struct {
    small how;
    const char *text;
} refused[] = {
    {{.stages = 5},
     "5 stages for 4 layers; every stage needs a layer: at most 4 stages work"},
    {{.microbatches = 5, .batch = 4},
     "5 microbatches for a batch of 4 sequences; every microbatch needs a sequence: at "
     "most 4 microbatches work"},
    {{.model = {.heads = 3}},
     "3 heads for width 16; heads must divide the width: 2 or 4 works"},
    {{.schedule = "seq1f1b", .slices = 9},
     "schedule seq1f1b cuts sequences of 8 tokens into 9 slices; every slice needs a "
     "token: at most 8 slices work"},
    {{.optimizer = {.lr = -1}}, "learning rate -1; it must be 0 or more"},
};

START_TEST(a_trainer_that_cannot_be_is_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = NULL;
    ck_assert_int_eq(small_trainer_try(&refused[_i].how, &trainer, &err), PST_EINVAL);
    ck_assert_str_eq(err.text, refused[_i].text);
    ck_assert_ptr_null(trainer);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("trainer");
    TCase *bits = tcase_create("bits");
    tcase_set_timeout(bits, 240);
    tcase_add_loop_test(bits, bits_do_not_depend_on_the_cut_or_the_list, 0, 4);
    tcase_add_loop_test(bits, bits_do_not_depend_on_the_team, 0, 4);
    tcase_add_test(bits, bits_do_not_depend_on_timing);
    tcase_add_test(bits, bits_do_not_depend_on_when_weights_are_due);
    tcase_add_loop_test(bits, every_kind_gives_the_bits_of_one_stage, 0,
                        sizeof kinds / sizeof *kinds);
    tcase_add_loop_test(bits, replicas_match_one_stage_and_repeat_themselves, 0,
                        sizeof replicated / sizeof *replicated);
    suite_add_tcase(suite, bits);
    TCase *slices = tcase_create("slices");
    tcase_set_timeout(slices, 240);
    tcase_add_loop_test(slices, bits_do_not_depend_on_the_list_of_slices, 0, 16);
    tcase_add_loop_test(slices, slices_match_whole_sequences, 0, 12);
    tcase_add_loop_test(slices, slices_of_any_length, 0, 4);
    tcase_add_test(slices, evaluation_and_generation_run_whole_sequences);
    suite_add_tcase(suite, slices);
    TCase *runs = tcase_create("runs");
    tcase_set_timeout(runs, 240);
    tcase_add_test(runs, training_lowers_the_loss);
    tcase_add_test(runs, a_report_says_what_a_step_did);
    tcase_add_test(runs, a_gradient_changes_no_weight);
    tcase_add_test(runs, evaluation_sums_over_all_windows);
    tcase_add_test(runs, generation_repeats_itself_and_follows_the_logits);
    suite_add_tcase(suite, runs);
    TCase *faults = tcase_create("faults");
    tcase_set_timeout(faults, 240);
    tcase_add_test(faults, a_step_that_is_not_finite_changes_nothing);
    tcase_add_test(faults, ids_outside_the_vocabulary_are_refused);
    tcase_add_loop_test(faults, a_trainer_that_cannot_be_is_refused, 0,
                        sizeof refused / sizeof *refused);
    suite_add_tcase(suite, faults);
    return suite;
}
