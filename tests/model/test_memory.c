/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_memory.c - every allocation of the model's layer fails in turn, jansson's too:
 * a clean error, nothing leaked, no half-written file, and all works afterwards.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/checkpoint.h>
#include <penstock/fault.h>
#include <penstock/finite.h>
#include <penstock/reference.h>
#include <penstock/safetensors.h>
#include <penstock/text.h>

#include "tests/model/support.h"
#include "tests/suite.h"

/* Of the env below and of jansson, which knows no env. */
static struct {
    long live;
    long total;
    long fail_at; /* the block, from 1, that is refused; 0: none                */
} memory;

static bool refuses(void)
{
    if (++memory.total == memory.fail_at)
        return true;
    memory.live++;
    return false;
}

static void *env_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return refuses() ? NULL
                     : aligned_alloc(alignment,
                                     (bytes + alignment - 1) / alignment * alignment);
}

static void env_release(void *user, void *block)
{
    (void)user;
    memory.live--;
    free(block);
}

static void *json_allocate(size_t bytes)
{
    if (!refuses())
        return malloc(bytes);
    errno = ENOMEM; /* as malloc() does */
    return NULL;
}

static void json_release(void *block)
{
    memory.live -= block != NULL;
    free(block);
}

static long every = 1; /* allocation fails; the others do not                     */

static const pst_env env = {.allocate = env_allocate, .release = env_release};

static char *folder;
static const char *run; /* of checkpoints, within it                           */

static void set_up(void)
{
    json_set_alloc_funcs(json_allocate, json_release);
    folder = make_folder();
    run = strdup(in_folder(folder, "run"));
}

static void tear_down(void)
{
    free((char *)run);
    remove_folder(folder);
    ck_assert_int_eq(memory.live, 0);
}

typedef pst_status (*attempt)(void *user, pst_error *err);

/*
 * Try until no allocation is missing any more; `after` looks at what each failure has
 * left. An attempt that could do without is undone by being tried again. Returns how
 * many failed.
 */
static long fail_each(attempt try, void (*after)(void *user), void *user)
{
    long failures = 0;
    for (long n = 1;; n += every) {
        pst_error err = PST_ERROR_INIT;
        const long live = memory.live;
        memory.fail_at = memory.total + n;
        const pst_status status = try(user, &err);
        const bool refused = memory.total >= memory.fail_at;
        memory.fail_at = 0;
        if (status == PST_OK && !refused)
            return failures;
        if (status == PST_OK)
            continue;
        failures++;
        ck_assert_msg(refused && status == PST_ENOMEM, "%ld: %s", n, err.text);
        ck_assert_msg(strncmp(err.text, "no memory for ", 14) == 0, "%s", err.text);
        ck_assert_msg(memory.live == live, "%ld: %ld blocks are left", n,
                      memory.live - live);
        if (after)
            after(user);
    }
}

/* ---- a trainer is made ----------------------------------------------------------- */

typedef struct making {
    small how;
    pst_trainer *trainer;
    pst_faults *faults;
    pst_finite *finite;
} making;

static void undo(making *m)
{
    pst_trainer_destroy(m->trainer);
    pst_finite_destroy(m->finite);
    pst_faults_destroy(m->faults);
    m->trainer = NULL;
    m->finite = NULL;
    m->faults = NULL;
}

static pst_status decorate(void *user, pst_stage *stages, int count, pst_error *err)
{
    static const pst_fault plan = {.op = PST_FAULT_FORWARD, .step = 1000};
    making *m = user;
    const pst_status status =
        pst_faults_create(&env, &plan, 1, stages, count, &m->faults, err);
    return status == PST_OK ? pst_finite_create(&env, stages, count, &m->finite, err)
                            : status;
}

static pst_status make(void *user, pst_error *err)
{
    making *m = user;
    const pst_status status = small_trainer_try(&m->how, &m->trainer, err);
    if (status != PST_OK) {
        ck_assert_ptr_null(m->trainer);
        undo(m);
    }
    return status;
}

static const small kinds[] = {
    {.schedule = "1f1b", .stages = 2, .team = 1},
    {.schedule = "interleaved", .stages = 4, .chunks = 2, .team = 1},
    {.schedule = "zb-h1", .stages = 2, .microbatches = 4, .team = 2},
    {.schedule = "seq1f1b", .stages = 2, .slices = 2, .team = 1},
    {.schedule = "chimera", .stages = 4, .chunks = 2, .team = 1},
    {.schedule = "pipedream", .stages = 2, .team = 1, .model = {.untied = 1}},
    {.schedule = "bpipe", .stages = 4, .microbatches = 4, .team = 1},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static making of_kind(int index)
{
    making m = {.how = kinds[index]};
    m.how.model.heads = 1;
    m.how.model.width = 4;
    m.how.model.context = 4;
    m.how.env = &env;
    m.how.topology = "core:8 pu:1";
    return m;
}

START_TEST(a_trainer_is_made_whole_or_not_at_all)
{
    making m = of_kind(_i);
    if (_i == 0) {
        m.how.decorate = decorate;
        m.how.decorate_user = &m;
    }
    ck_assert_int_gt(fail_each(make, NULL, &m), 50);
    step_of(m.trainer, &m.how, 1);
    undo(&m);
}
END_TEST

/* ---- what a trainer does --------------------------------------------------------- */

enum { WINDOWS = 5, PROMPT = 2, COUNT = 6 };

typedef struct working {
    making m;
    int32_t inputs[32], labels[32]; /* of a batch or of WINDOWS                  */
    int32_t text[PROMPT + COUNT];
    char before[65];
} working;

static working start_work(int kind)
{
    working w = {.m = of_kind(kind)};
    ck_assert_int_eq(make(&w.m, NULL), PST_OK);
    random_ids(w.inputs, 32, 32, 1);
    random_ids(w.labels, 32, 32, 2);
    pst_trainer_digest(w.m.trainer, w.before);
    return w;
}

static pst_status step(void *user, pst_error *err)
{
    working *w = user;
    pst_step_report report;
    return pst_trainer_step(w->m.trainer, w->inputs, w->labels, &report, err);
}

static pst_status evaluate(void *user, pst_error *err)
{
    working *w = user;
    double sum;
    int64_t tokens;
    return pst_trainer_evaluate(w->m.trainer, WINDOWS, w->inputs, w->labels, &sum,
                                &tokens, err);
}

static pst_status logits(void *user, pst_error *err)
{
    working *w = user;
    float out[4 * 4 * 32];
    return pst_trainer_logits(w->m.trainer, 4, w->inputs, out, err);
}

static pst_status generate(void *user, pst_error *err)
{
    working *w = user;
    return pst_trainer_generate(w->m.trainer, w->text, PROMPT, COUNT, 0.8, 1, err);
}

static void nothing_changed(void *user)
{
    const working *w = user;
    char now[65];
    ck_assert_str_eq(pst_trainer_digest(w->m.trainer, now), w->before);
    ck_assert_int_eq(pst_trainer_steps(w->m.trainer), 0);
}

START_TEST(runs_take_no_memory_or_can_be_tried_again)
{
    working w = start_work(_i);
    ck_assert_int_eq(fail_each(evaluate, nothing_changed, &w), 0);
    ck_assert_int_eq(fail_each(logits, nothing_changed, &w), 0);
    ck_assert_int_eq(fail_each(generate, nothing_changed, &w), 1);
    nothing_changed(&w);
    ck_assert_int_eq(fail_each(step, NULL, &w), 0);
    ck_assert_int_eq(pst_trainer_steps(w.m.trainer), 1);
    undo(&w.m);
}
END_TEST

/* ---- checkpoints ----------------------------------------------------------------- */

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* All names of a folder, one after the other, in order. */
static const char *names_in(const char *path)
{
    static char text[512];
    struct dirent **entries;
    const int count = scandir(path, &entries, is_visible, alphasort);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "",
                 entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return text;
}

static pst_status save(void *user, pst_error *err)
{
    return pst_trainer_save(((working *)user)->m.trainer, run, err);
}

/* The thread's own memory is malloc's. */
static pst_status save_in_two_halves(void *user, pst_error *err)
{
    pst_checkpoint state = {.step = 7};
    pst_checkpoint_writer *writer = NULL;
    state.weights =
        pst_trainer_weights(((working *)user)->m.trainer, &state.weight_count);
    const pst_status begun = pst_checkpoint_begin(&env, run, &state, &writer, err);
    const pst_status ended = pst_checkpoint_finish(writer, err);
    pst_checkpoint_writer_destroy(writer);
    return begun != PST_OK ? begun : ended;
}

static pst_status resume(void *user, pst_error *err)
{
    return pst_trainer_resume(((working *)user)->m.trainer, run, err);
}

static void only_the_first(void *user)
{
    (void)user;
    const char *names = names_in(run);
    ck_assert_msg(!*names || strcmp(names, "step-00000001") == 0 ||
                      strcmp(names, "step-00000001 step-00000002") == 0,
                  "%s", names);
}

static void digest_of_newest(char digest[65], int steps)
{
    working other = start_work(0);
    pst_error err = PST_ERROR_INIT;
    ck_assert_msg(resume(&other, &err) == PST_OK, "%s", err.text);
    ck_assert_int_eq(pst_trainer_steps(other.m.trainer), steps);
    pst_trainer_digest(other.m.trainer, digest);
    undo(&other.m);
}

START_TEST(a_save_in_two_halves_can_be_begun_again)
{
    working w = start_work(0);
    ck_assert_int_gt(fail_each(save_in_two_halves, NULL, &w), 8);
    ck_assert_str_eq(names_in(run), "step-00000007");
    ck_assert_str_eq(names_in(in_folder(run, "step-00000007")),
                     "manifest.json model.safetensors optimizer.safetensors");
    undo(&w.m);
}
END_TEST

START_TEST(a_checkpoint_is_saved_whole_or_not_at_all)
{
    working w = start_work(0);
    char own[65], found[65];
    for (int i = 1; i <= 3; i++) {
        ck_assert_int_eq(step(&w, NULL), PST_OK);
        every = i == 1 ? 1 : 7; /* each waits for the disk */
        ck_assert_int_gt(fail_each(save, i < 3 ? only_the_first : NULL, &w) * every,
                         100);
        digest_of_newest(found, i);
        ck_assert_str_eq(pst_trainer_digest(w.m.trainer, own), found);
    }
    ck_assert_str_eq(names_in(run), "step-00000002 step-00000003");
    ck_assert_str_eq(names_in(in_folder(run, "step-00000003")),
                     "manifest.json model.safetensors optimizer.safetensors");
    undo(&w.m);
}
END_TEST

/* Never from the older one, and never in part. */
START_TEST(a_run_is_resumed_whole_or_not_at_all)
{
    working w = start_work(0), other = start_work(0);
    char own[65], found[65];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(step(&w, NULL), PST_OK);
        ck_assert_int_eq(save(&w, NULL), PST_OK);
    }
    ck_assert_int_gt(fail_each(resume, nothing_changed, &other), 100);
    ck_assert_int_eq(pst_trainer_steps(other.m.trainer), 2);
    ck_assert_str_eq(pst_trainer_digest(w.m.trainer, own),
                     pst_trainer_digest(other.m.trainer, found));
    undo(&w.m);
    undo(&other.m);
}
END_TEST

static pst_status prepare(void *user, pst_error *err)
{
    (void)user;
    return pst_checkpoint_prepare(&env, run, err);
}

static void nothing_in_run(void *user)
{
    (void)user;
    ck_assert_str_eq(names_in(run), "");
}

START_TEST(a_folder_is_tried)
{
    ck_assert_int_ge(fail_each(prepare, nothing_in_run, NULL), 3);
    nothing_in_run(NULL);
}
END_TEST

/* ---- files ----------------------------------------------------------------------- */

static pst_status load_weights(void *user, pst_error *err)
{
    working *w = user;
    return pst_trainer_load_weights(
        w->m.trainer, in_folder(run, "step-00000001/model.safetensors"), err);
}

START_TEST(weights_are_read_whole_or_not_at_all)
{
    working w = start_work(0), other = start_work(0);
    char own[65], found[65];
    ck_assert_int_eq(step(&w, NULL), PST_OK);
    ck_assert_int_eq(save(&w, NULL), PST_OK);
    ck_assert_int_gt(fail_each(load_weights, nothing_changed, &other), 50);
    ck_assert_str_eq(pst_trainer_digest(w.m.trainer, own),
                     pst_trainer_digest(other.m.trainer, found));
    undo(&w.m);
    undo(&other.m);
}
END_TEST

static pst_status write_tensors(void *user, pst_error *err)
{
    static const pst_metadata metadata[] = {{"format", "pt"}};
    const pst_trainer *trainer = ((working *)user)->m.trainer;
    size_t count;
    const pst_tensor *weights = pst_trainer_weights(trainer, &count);
    return pst_safetensors_write(&env, in_folder(folder, "x"), weights, count, metadata,
                                 1, err);
}

static void nothing_written(void *user)
{
    (void)user;
    ck_assert_str_eq(names_in(folder), "");
}

START_TEST(tensors_are_written_whole_or_not_at_all)
{
    working w = start_work(0);
    ck_assert_int_gt(fail_each(write_tensors, nothing_written, &w), 50);
    ck_assert_str_eq(names_in(folder), "x");
    undo(&w.m);
}
END_TEST

static pst_status read_reference(void *user, pst_error *err)
{
    pst_reference *reference;
    (void)user;
    const pst_status status =
        pst_reference_open(&env, data_file("models/gpt2-tiny"), &reference, err);
    if (status == PST_OK)
        pst_reference_close(&env, reference);
    return status;
}

static pst_status read_tensors(void *user, pst_error *err)
{
    pst_safetensors *file;
    (void)user;
    const pst_status status = pst_safetensors_open(
        &env, data_file("models/gpt2-tiny.safetensors"), &file, err);
    if (status == PST_OK)
        pst_safetensors_close(file);
    return status;
}

static pst_status read_text(void *user, pst_error *err)
{
    pst_text *text;
    (void)user;
    const pst_status status =
        pst_text_open(&env, in_folder(folder, "text"), 0.1, 8, 256, &text, err);
    if (status == PST_OK)
        pst_text_close(text);
    return status;
}

START_TEST(files_are_read_whole_or_not_at_all)
{
    static char words[100000]; /* more than one buffer's */
    memset(words, 'w', sizeof words);
    write_file(in_folder(folder, "text"), words, sizeof words);
    ck_assert_int_ge(fail_each(read_text, NULL, NULL), 3);
    ck_assert_int_gt(fail_each(read_tensors, NULL, NULL), 50);
    ck_assert_int_gt(fail_each(read_reference, NULL, NULL), 50);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *all = tcase_create("memory");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_loop_test(all, a_trainer_is_made_whole_or_not_at_all, 0, KINDS);
    tcase_add_loop_test(all, runs_take_no_memory_or_can_be_tried_again, 0, KINDS);
    tcase_add_test(all, a_save_in_two_halves_can_be_begun_again);
    tcase_add_test(all, a_checkpoint_is_saved_whole_or_not_at_all);
    tcase_add_test(all, a_run_is_resumed_whole_or_not_at_all);
    tcase_add_test(all, a_folder_is_tried);
    tcase_add_test(all, weights_are_read_whole_or_not_at_all);
    tcase_add_test(all, tensors_are_written_whole_or_not_at_all);
    tcase_add_test(all, files_are_read_whole_or_not_at_all);
    suite_add_tcase(suite, all);
    return suite;
}
