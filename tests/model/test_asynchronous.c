/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_asynchronous.c - PipeDream and 2BW against one process that delays the weights.
 *
 * The oracle knows nothing of lists: update t takes the gradient of batch t at weights
 * of which stage s has the version that the papers say, and applies it to the newest.
 * Gradients come from a synchronous trainer with one stage. All bits must agree.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/registry.h>

#include "model/adamw.h"
#include "model/kernels.h"
#include "tests/model/support.h"
#include "tests/suite.h"

enum { MOST_TENSORS = 64, MOST_VERSIONS = 40, LAYERS = 5, CONTEXT = 8, TOKENS = 32 };

static const pst_gpt_config model = {.layers = LAYERS,
                                     .heads = 2,
                                     .width = 16,
                                     .context = CONTEXT,
                                     .vocabulary = TOKENS,
                                     .untied = 1};
static const pst_adamw adamw = {
    .lr = 1e-2, .min_lr = -1, .weight_decay = 0.1, .warmup = 2, .steps = 10};

/* One kind of run. */
typedef struct setting {
    const char *schedule;
    int stages;
    int microbatches;
    int group;     /* microbatches of an update                                 */
    int sequences; /* of a step                                                */
} setting;

static const setting settings[] = {
    {"pipedream", 1, 4, 1, 4},      {"pipedream", 2, 5, 1, 8},
    {"pipedream", 3, 2, 1, 4},      {"pipedream", 4, 9, 1, 13},
    {"pipedream", 5, 12, 1, 12},    {"pipedream-2bw", 1, 4, 2, 8},
    {"pipedream-2bw", 2, 8, 2, 16}, {"pipedream-2bw", 4, 12, 4, 12},
    {"pipedream-2bw", 4, 9, 1, 9},  {"pipedream-2bw", 3, 10, 4, 10},
    {"pipedream-2bw", 4, 2, 4, 4},
};

static pst_trainer *make_trainer(const char *name, int stages, int microbatches,
                                 int group, int batch)
{
    const pst_shape shape = {
        .ranks = stages, .microbatches = microbatches, .group = group};
    pst_schedule *schedule = NULL;
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = NULL;
    pst_schedule_create(NULL, name, &shape, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    const pst_trainer_options options = {.model = model,
                                         .optimizer = adamw,
                                         .batch = batch,
                                         .schedule = schedule,
                                         .seed = 7};
    pst_trainer_create(NULL, &options, &trainer, &err);
    ck_assert_msg(trainer != NULL, "%s", err.text);
    pst_schedule_destroy(schedule);
    return trainer;
}

/* ---- the oracle ------------------------------------------------------------------ */

typedef struct oracle {
    size_t tensors;
    size_t count[MOST_TENSORS];
    int stage[MOST_TENSORS];
    int decays[MOST_TENSORS];
    float *version[MOST_VERSIONS][MOST_TENSORS]; /* the last is the newest        */
    int newest;
    float *m[MOST_TENSORS], *v[MOST_TENSORS];
    int64_t updates; /* over all steps                                         */
    int64_t steps;
} oracle;

static float *copy_of(const float *data, size_t count)
{
    float *own = malloc(count * sizeof *own);
    memcpy(own, data, count * sizeof *own);
    return own;
}

static void oracle_init(oracle *o, const pst_trainer *trainer, int stages)
{
    memset(o, 0, sizeof *o);
    const pst_tensor *weights = pst_trainer_weights(trainer, &o->tensors);
    ck_assert_uint_le(o->tensors, MOST_TENSORS);
    for (int stage = 0, at = 0; stage < stages; stage++) {
        pst_parameter own[MOST_TENSORS];
        const size_t count =
            pst_gpt_parameters(&model, stage, stages, own, MOST_TENSORS, NULL);
        for (size_t i = 0; i < count; i++, at++) {
            o->stage[at] = stage;
            o->decays[at] = own[i].decays;
            o->count[at] = weights[at].count;
            o->version[0][at] = copy_of(weights[at].data, o->count[at]);
            o->m[at] = calloc(o->count[at], sizeof(float));
            o->v[at] = calloc(o->count[at], sizeof(float));
        }
    }
}

static void forget_versions(oracle *o, int from, int to)
{
    for (int k = from; k < to; k++)
        for (size_t i = 0; i < o->tensors; i++)
            free(o->version[k][i]);
}

static void oracle_fini(oracle *o)
{
    forget_versions(o, 0, o->newest + 1);
    for (size_t i = 0; i < o->tensors; i++) {
        free(o->m[i]);
        free(o->v[i]);
    }
}

/* Which weights stage `stage` of p has for batch t of a list. */
static int delayed_version(const setting *s, int t, int stage)
{
    const int delay = strcmp(s->schedule, "pipedream") == 0 ? s->stages - 1 - stage : 1;
    return t > delay ? t - delay : 0;
}

/* Batch t: `microbatches` with so many sequences in all, as they stand at `inputs`. */
static void oracle_update(oracle *o, const setting *s, int t, int microbatches,
                          int sequences, const int32_t *inputs, const int32_t *labels)
{
    size_t count;
    pst_error err = PST_ERROR_INIT;
    pst_step_report report;
    pst__adamw_numbers n;
    pst_trainer *one = make_trainer("gpipe", 1, microbatches, 0, sequences);
    const pst_tensor *weights = pst_trainer_weights(one, &count);
    for (size_t i = 0; i < count; i++)
        memcpy(weights[i].data, o->version[delayed_version(s, t, o->stage[i])][i],
               o->count[i] * sizeof(float));
    pst_trainer_refresh(one, NULL);
    ck_assert_msg(pst_trainer_gradient(one, inputs, labels, &report, &err) == PST_OK,
                  "%s", err.text);
    const pst_tensor *gradients = pst_trainer_gradients(one, &count);
    pst_adamw full = adamw;
    pst__adamw_complete(&full, NULL);
    pst__adamw_numbers_init(&n, &full, o->steps, o->updates++);
    for (size_t i = 0; i < count; i++) {
        float *w = copy_of(o->version[o->newest][i], o->count[i]);
        pst__kernels()->adamw(w, gradients[i].data, o->m[i], o->v[i], o->count[i], 1,
                              n.rate, o->decays[i] ? n.decay : 0, n.beta1, n.beta2,
                              n.c1, n.c2, n.epsilon);
        o->version[o->newest + 1][i] = w;
    }
    o->newest++;
    pst_trainer_destroy(one);
}

/* A list; it begins with one version, since the pipeline was drained. */
static void oracle_step(oracle *o, const setting *s, const int32_t *inputs,
                        const int32_t *labels)
{
    const int each = s->sequences / s->microbatches;
    const int larger = s->sequences % s->microbatches;
    int at = 0;
    for (int i = 0, t = 0; i < s->microbatches; t++) {
        int sequences = 0, taken = 0;
        for (; taken < s->group && i < s->microbatches; taken++, i++)
            sequences += each + (i < larger);
        oracle_update(o, s, t, taken, sequences, inputs + at * CONTEXT,
                      labels + at * CONTEXT);
        at += sequences;
    }
    forget_versions(o, 0, o->newest);
    memcpy(o->version[0], o->version[o->newest], sizeof o->version[0]);
    o->newest = 0;
    o->steps++;
}

START_TEST(delayed_weights_agree)
{
    enum { MOST = 16 * CONTEXT };
    const setting *s = &settings[_i];
    static oracle o;
    int32_t inputs[MOST], labels[MOST];
    size_t count;
    pst_step_report report;
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = make_trainer(
        s->schedule, s->stages, s->microbatches,
        strcmp(s->schedule, "pipedream") == 0 ? 0 : s->group, s->sequences);
    oracle_init(&o, trainer, s->stages);
    for (int step = 0; step < 3; step++) {
        random_ids(inputs, MOST, TOKENS, (uint64_t)(2 * step));
        random_ids(labels, MOST, TOKENS, (uint64_t)(2 * step + 1));
        ck_assert_msg(pst_trainer_step(trainer, inputs, labels, &report, &err) ==
                          PST_OK,
                      "%s", err.text);
        oracle_step(&o, s, inputs, labels);
        const pst_tensor *weights = pst_trainer_weights(trainer, &count);
        for (size_t i = 0; i < count; i++)
            ck_assert_msg(memcmp(weights[i].data, o.version[0][i],
                                 o.count[i] * sizeof(float)) == 0,
                          "step %d: %s differs", step, weights[i].name);
    }
    oracle_fini(&o);
    pst_trainer_destroy(trainer);
}
END_TEST

/* Or the test above would show little. */
START_TEST(delays_matter)
{
    char sync[65], stash[65], twice[65];
    static const char *const names[] = {"1f1b", "pipedream", "pipedream-2bw"};
    char *const digests[] = {sync, stash, twice};
    for (int k = 0; k < 3; k++) {
        const small how = {.schedule = names[k],
                           .stages = 3,
                           .microbatches = 6,
                           .batch = 6,
                           .model = model,
                           .optimizer = adamw};
        pst_trainer *trainer = small_trainer(&how);
        step_of(trainer, &how, 1);
        pst_trainer_digest(trainer, digests[k]);
        pst_trainer_destroy(trainer);
    }
    ck_assert_str_ne(sync, stash);
    ck_assert_str_ne(sync, twice);
    ck_assert_str_ne(stash, twice);
}
END_TEST

START_TEST(what_cannot_be_is_said)
{
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = NULL;
    small how = {.schedule = "pipedream", .stages = 2, .optimizer = {.clip = 1}};
    ck_assert_int_eq(small_trainer_try(&how, &trainer, &err), PST_EINVAL);
    ck_assert_str_eq(err.text,
                     "schedule pipedream steps each stage by itself, and a tied head "
                     "needs the gradients of two; an untied model would work");
    err = (pst_error)PST_ERROR_INIT;
    how.model.untied = 1;
    ck_assert_int_eq(small_trainer_try(&how, &trainer, &err), PST_EINVAL);
    ck_assert_str_eq(
        err.text, "schedule pipedream steps each stage by itself, so there is no norm "
                  "of all gradients to clip to 1; no clipping (0) would work");
    how.optimizer.clip = 0;
    trainer = small_trainer(&how);
    int32_t ids[4 * CONTEXT] = {0};
    pst_step_report report;
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_trainer_gradient(trainer, ids, ids, &report, &err),
                     PST_EINVAL);
    ck_assert_int_eq(pst_trainer_step(trainer, ids, ids, &report, &err), PST_OK);
    pst_trainer_destroy(trainer);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("asynchronous");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 240);
    tcase_add_loop_test(all, delayed_weights_agree, 0,
                        sizeof settings / sizeof *settings);
    tcase_add_test(all, delays_matter);
    tcase_add_test(all, what_cannot_be_is_said);
    suite_add_tcase(suite, all);
    return suite;
}
