/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_checkpoint_processes.c - what several processes save while they go on, any
 * number of them loads bit for bit; what one cannot write or read is so for all.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/checkpoint.h>
#include <penstock/task.h>

#include "tests/model/support.h"
#include "tests/stages/loopback.h"
#include "tests/suite.h"

enum { MOST = 4, WEIGHTS = 7, TENSORS = 3 * WEIGHTS, LARGEST = 5000 };

static char *folder;

/* ---- processes, and a state spread over them ------------------------------------- */

typedef struct process {
    pst_env env;
    pst_transport *transport;
    const char *dir;
    int64_t step; /* to save, and found                                         */
    pst_tensor tensors[TENSORS];
    const char *strike; /* save point at which to do harm                        */
    int kill;
    char log[4096];
    pst_status status;
    pst_error err;
    int polls;
    int wrong; /* floats that are not what they should be                      */
} process;

static float value_of(size_t tensor, size_t element, int64_t step)
{
    return (float)(tensor * 1000 + element) + (float)step / 1024;
}

/* Which process of n holds it: neighbours here and there, and none for one of 4. */
static int holder_of(size_t tensor, int n)
{
    return (int)(n == MOST ? tensor % 3 : (tensor / 2) % (size_t)n);
}

static void fill(process *p, int64_t step)
{
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t e = 0; p->tensors[i].data != NULL && e < p->tensors[i].count; e++)
            p->tensors[i].data[e] = value_of(i, e, step);
}

static int compare(const process *p, int64_t step)
{
    int wrong = 0;
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t e = 0; p->tensors[i].data != NULL && e < p->tensors[i].count; e++)
            wrong += p->tensors[i].data[e] != value_of(i, e, step);
    return wrong;
}

/* The harm that a process does at its save point. */
static void strike(process *p)
{
    char command[5000];
    if (p->kill)
        raise(SIGKILL);
    snprintf(command, sizeof command, "rm -f %s/*.tmp/model-00002-of-*.tmp", p->dir);
    if (system(command) != 0)
        abort();
}

static void hear(void *user, pst_log_level level, const char *text)
{
    process *p = user;
    const char *start = "save point ";
    const size_t used = strlen(p->log);
    if (level <= PST_LOG_WARNING)
        snprintf(p->log + used, sizeof p->log - used, "%s\n", text);
    if (p->strike != NULL && strncmp(text, start, strlen(start)) == 0 &&
        strcmp(text + strlen(start), p->strike) == 0)
        strike(p);
}

static void open_process(process *p, loopback *net, int number, int count,
                         const char *dir)
{
    *p = (process){.env = {.log = hear, .user = p},
                   .transport = count > 1 ? loopback_end(net, number) : NULL,
                   .dir = dir};
    for (size_t i = 0; i < TENSORS; i++) {
        pst_tensor *tensor = &p->tensors[i];
        static const char *const kinds[] = {"", "m.", "v."};
        const size_t name = i < WEIGHTS ? i : (i - WEIGHTS) / 2;
        const char *kind = kinds[i < WEIGHTS ? 0 : 1 + (i - WEIGHTS) % 2];
        snprintf(tensor->name, sizeof tensor->name, "%sh.%zu.weight", kind, name);
        tensor->dims = 1;
        tensor->count = tensor->shape[0] = name == 3 ? LARGEST : 10 * name + 1;
        if (holder_of(name, count) == number)
            tensor->data = calloc(tensor->count, sizeof(float));
    }
}

static void close_process(process *p)
{
    for (size_t i = 0; i < TENSORS; i++)
        free(p->tensors[i].data);
}

static pst_checkpoint state_of(const process *p)
{
    static const pst_setting width = {"width", "128"};
    return (pst_checkpoint){.step = p->step,
                            .weights = p->tensors,
                            .weight_count = WEIGHTS,
                            .optimizer = p->tensors + WEIGHTS,
                            .optimizer_count = TENSORS - WEIGHTS,
                            .settings = &width,
                            .setting_count = 1,
                            .transport = p->transport};
}

/* Two saves from one writer; the state goes on changing while they are under way. */
static void save(void *argument)
{
    process *p = argument;
    pst_checkpoint_writer *writer = NULL;
    for (int64_t end = p->step + 2; p->status == PST_OK && p->step < end; p->step++) {
        const pst_checkpoint state = state_of(p);
        int done = 0;
        fill(p, p->step);
        p->status = pst_checkpoint_begin(&p->env, p->dir, &state, &writer, &p->err);
        fill(p, 999);
        while (p->status == PST_OK && !done && p->step % 2 == 0) {
            p->status = pst_checkpoint_poll(writer, &done, &p->err);
            p->polls++;
        }
        if (p->status == PST_OK)
            p->status = pst_checkpoint_finish(writer, &p->err);
    }
    pst_checkpoint_writer_destroy(writer);
}

static void save_at_once(void *argument)
{
    process *p = argument;
    const pst_checkpoint state = state_of(p);
    fill(p, p->step);
    p->status = pst_checkpoint_save(&p->env, p->dir, &state, &p->err);
}

static void load(void *argument)
{
    process *p = argument;
    const pst_checkpoint state = state_of(p);
    fill(p, 777);
    p->step = -1;
    p->status = pst_checkpoint_load(&p->env, p->dir, &state, &p->step, &p->err);
    p->wrong = compare(p, p->status == PST_OK ? p->step : 777);
}

/* A run of some processes, from its start to its end. */
typedef struct group {
    process all[MOST];
    int count;
    loopback *net;
} group;

static void open_group(group *g, int count, const char *const *dirs)
{
    g->count = count;
    g->net = loopback_create(count);
    for (int i = 0; i < count; i++)
        open_process(&g->all[i], g->net, i, count, dirs[i]);
}

static void close_group(group *g)
{
    for (int i = 0; i < g->count; i++)
        close_process(&g->all[i]);
    loopback_destroy(g->net);
}

/* All at once; all have the same status and step. */
static pst_status all_do(group *g, void (*what)(void *argument), int64_t step)
{
    pst_task *tasks[MOST];
    for (int i = 0; i < g->count; i++)
        g->all[i].step = step;
    for (int i = 0; i < g->count; i++)
        ck_assert_int_eq(
            pst_task_start(NULL, "process", what, &g->all[i], &tasks[i], NULL), PST_OK);
    for (int i = 0; i < g->count; i++)
        pst_task_wait(tasks[i]);
    for (int i = 0; i < g->count; i++) {
        const process *p = &g->all[i];
        ck_assert_msg(p->status == g->all[0].status, "%s / %s", p->err.text,
                      g->all[0].err.text);
        if (p->dir == g->all[0].dir) /* which it names */
            ck_assert_str_eq(p->err.text, g->all[0].err.text);
        ck_assert_int_eq(p->step, g->all[0].step);
        ck_assert_int_eq(p->wrong, 0);
    }
    return g->all[0].status;
}

/* Once, with processes that end afterwards. */
static void must(void (*what)(void *argument), int count, const char *const *dirs,
                 int64_t step)
{
    group g;
    open_group(&g, count, dirs);
    ck_assert_msg(all_do(&g, what, step) == PST_OK, "%s", g.all[0].err.text);
    if (what == load)
        ck_assert_int_eq(g.all[0].step, step);
    close_group(&g);
}

static const char *shared[MOST];   /* one folder                               */
static const char *separate[MOST]; /* one of each process                      */

static void set_up(void)
{
    folder = make_folder();
    for (int i = 0; i < MOST; i++) {
        const char *names[] = {"a", "b", "c", "d"};
        shared[i] = i == 0 ? strdup(in_folder(folder, "run")) : shared[0];
        separate[i] = strdup(in_folder(folder, names[i]));
    }
}

static void tear_down(void)
{
    free((char *)shared[0]);
    for (int i = 0; i < MOST; i++)
        free((char *)separate[i]);
    remove_folder(folder);
}

static int exists(const char *dir, const char *name)
{
    struct stat status;
    return stat(in_folder(dir, name), &status) == 0;
}

/* ---- tests ----------------------------------------------------------------------- */

START_TEST(any_number_loads_what_any_number_saved)
{
    must(save, 1 + _i / MOST, shared, 2);
    must(load, 1 + _i % MOST, shared, 3);
    ck_assert(!exists(shared[0], "step-00000003.tmp"));
    must(save_at_once, 1 + _i / MOST, shared, 4);
    must(load, 1 + _i % MOST, shared, 4);
    ck_assert(!exists(shared[0], "step-00000002"));
    ck_assert(exists(shared[0], "step-00000003"));
}
END_TEST

START_TEST(several_write_what_hugging_face_reads)
{
    static const char *const names[] = {
        "step-00000001/model-00001-of-00003.safetensors",
        "step-00000001/model-00003-of-00003.safetensors",
        "step-00000001/optimizer-00002-of-00003.safetensors",
        "step-00000001/model.safetensors.index.json", "step-00000001/manifest.json"};
    char text[4096] = "";
    must(save_at_once, 3, shared, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(exists(shared[0], names[i]), "%s", names[i]);
    ck_assert(!exists(shared[0], "step-00000001/model.safetensors"));
    FILE *file = fopen(in_folder(shared[0], names[3]), "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    ck_assert_ptr_nonnull(
        strstr(text, "\"h.4.weight\": \"model-00003-of-00003.safetensors\""));
    ck_assert_ptr_nonnull(strstr(text, "\"total_size\": 20744"));

    must(save_at_once, 1, shared, 2); /* as it was before there were several */
    ck_assert(exists(shared[0], "step-00000002/model.safetensors"));
    ck_assert(!exists(shared[0], "step-00000002/model.safetensors.index.json"));
}
END_TEST

/* One that three of four processes write, and the fourth none of. */
START_TEST(a_process_without_tensors_writes_no_file)
{
    must(save_at_once, 4, shared, 1);
    ck_assert(exists(shared[0], "step-00000001/model-00003-of-00004.safetensors"));
    ck_assert(!exists(shared[0], "step-00000001/model-00004-of-00004.safetensors"));
}
END_TEST

static void change(const char *path, const char *how)
{
    char command[5000];
    snprintf(command, sizeof command, how, path);
    ck_assert_int_eq(system(command), 0);
}

static const struct {
    const char *file, *how, *said;
} damages[] = {
    {"model-00002-of-00003.safetensors", "rm %s",
     "it was written by process 1 on node-1 and no process of this run sees it; tensor "
     "h.2.weight is in it"},
    {"optimizer-00001-of-00003.safetensors", "truncate -s 100 %s", ""},
    {"optimizer-00003-of-00003.safetensors",
     "printf X | dd of=%s bs=1 seek=700 conv=notrunc 2>/dev/null", "the checksum of"},
    {"manifest.json", "rm %s", "No such file or directory"},
    {"manifest.json", "sed -i s/128/129/ %s", "its checksum is wrong"},
};

START_TEST(the_one_before_a_torn_one_is_taken)
{
    group g;
    char path[5000];
    must(save, 3, shared, 1);
    snprintf(path, sizeof path, "%s/step-00000002/%s", shared[0], damages[_i].file);
    change(path, damages[_i].how);
    open_group(&g, 1 + _i % 3, shared);
    ck_assert_msg(all_do(&g, load, 0) == PST_OK, "%s", g.all[0].err.text);
    ck_assert_int_eq(g.all[0].step, 1);
    ck_assert_msg(strstr(g.all[0].log, path) && strstr(g.all[0].log, damages[_i].said),
                  "%s", g.all[0].log);
    for (int i = 1; i < g.count; i++)
        ck_assert_str_eq(g.all[i].log, "");
    close_group(&g);

    snprintf(path, sizeof path, "%s/step-00000001/%s", shared[0], damages[_i].file);
    change(path, damages[_i].how);
    open_group(&g, 3, shared);
    ck_assert_int_eq(all_do(&g, load, 0), PST_EFORMAT);
    ck_assert_ptr_nonnull(strstr(g.all[0].err.text, " is complete"));
    close_group(&g);
}
END_TEST

START_TEST(what_one_cannot_write_is_everybodys_error)
{
    group g;
    char text[5000];
    must(save, 3, shared, 1);
    open_group(&g, 3, shared);
    g.all[1].strike = "shard-half"; /* its file is gone when it is to get its name */
    ck_assert_int_eq(all_do(&g, _i ? save : save_at_once, 3), PST_EIO);
    snprintf(text, sizeof text,
             "process 1 on node-1: %s/step-00000003.tmp/model-00002-of-00003."
             "safetensors: No such file or directory",
             shared[0]);
    ck_assert_str_eq(g.all[0].err.text, text);
    ck_assert(!exists(shared[0], "step-00000003.tmp"));
    ck_assert(!exists(shared[0], "step-00000003"));
    close_group(&g);
    must(load, 3, shared, 2);
    must(save, 3, shared, 3);
    must(load, 2, shared, 4);
}
END_TEST

START_TEST(a_tensor_that_nobody_holds_is_named)
{
    group g;
    open_group(&g, 2, shared);
    for (int i = 0; i < 2; i++) {
        free(g.all[i].tensors[2].data);
        g.all[i].tensors[2].data = NULL;
    }
    ck_assert_int_eq(all_do(&g, save, 1), PST_EINVAL);
    ck_assert_str_eq(g.all[0].err.text,
                     "tensor h.2.weight: no process holds it, so that it cannot be "
                     "saved");
    close_group(&g);
}
END_TEST

/* Copies of a model hold the same tensors: the lowest saves, all load. */
START_TEST(what_two_hold_is_saved_once)
{
    group g;
    for (int round = 0; round < 2; round++) {
        open_group(&g, 2, shared);
        for (int i = 0; i < 2; i++)
            for (size_t k = 0; k < TENSORS; k++)
                if (g.all[i].tensors[k].data == NULL)
                    g.all[i].tensors[k].data =
                        calloc(g.all[i].tensors[k].count, sizeof(float));
        ck_assert_msg(all_do(&g, round ? load : save, 1) == PST_OK, "%s",
                      g.all[0].err.text);
        close_group(&g);
    }
    ck_assert(!exists(shared[0], "step-00000002/model-00002-of-00002.safetensors"));
}
END_TEST

static void two_saves_at_once(void *argument)
{
    process *p = argument;
    const pst_checkpoint state = state_of(p);
    pst_checkpoint_writer *writer = NULL;
    int done = 0;
    fill(p, p->step);
    p->status = pst_checkpoint_begin(&p->env, p->dir, &state, &writer, &p->err);
    if (p->status == PST_OK)
        p->status = pst_checkpoint_begin(&p->env, p->dir, &state, &writer, &p->err);
    if (pst_checkpoint_finish(writer, NULL) != PST_OK ||
        pst_checkpoint_poll(writer, &done, NULL) != PST_OK || !done)
        p->wrong = 1;
    pst_checkpoint_writer_destroy(writer);
}

START_TEST(a_second_save_waits_for_the_first)
{
    group g;
    open_group(&g, _i, shared);
    ck_assert_int_eq(all_do(&g, two_saves_at_once, 1), PST_EINVAL);
    ck_assert_ptr_nonnull(strstr(g.all[0].err.text, ": a save is under way"));
    close_group(&g);
    must(load, _i, shared, 1);
}
END_TEST

/* ---- folders of hosts ------------------------------------------------------------ */

START_TEST(each_host_keeps_its_own_and_sends_it)
{
    const char *const moved[MOST] = {separate[2], separate[0], separate[1],
                                     separate[3]};
    const char *const fewer[MOST] = {separate[1], separate[2]};
    must(save, 3, separate, 1);
    ck_assert(exists(separate[0], "step-00000002/manifest.json"));
    ck_assert(exists(separate[2], "step-00000002/model-00003-of-00003.safetensors"));
    ck_assert(!exists(separate[2], "step-00000002/model-00001-of-00003.safetensors"));
    ck_assert(exists(separate[2], "step-00000002/model.safetensors.index.json"));
    must(load, 3, separate, 2);
    must(load, 3, moved, 2);
    must(load, 4, moved, 2); /* the fourth has no folder */

    group g;
    char text[5000];
    open_group(&g, 2, fewer);
    ck_assert_int_eq(all_do(&g, load, 0), PST_EFORMAT);
    snprintf(
        text, sizeof text,
        "step-00000002/model-00001-of-00003.safetensors: it was written by process "
        "0 on node-0 and no process of this run sees it; tensor h.0.weight is in "
        "it; no checkpoint in ");
    ck_assert_msg(strstr(g.all[0].err.text, text) != NULL, "%s", g.all[0].err.text);
    close_group(&g);
    open_group(&g, 1, fewer);
    ck_assert_int_eq(all_do(&g, load, 0), PST_EFORMAT);
    ck_assert_msg(strstr(g.all[0].err.text, text) != NULL, "%s", g.all[0].err.text);
    close_group(&g);
}
END_TEST

START_TEST(hosts_of_two_processes_have_one_folder)
{
    const char *const pairs[MOST] = {separate[0], separate[0], separate[1],
                                     separate[1]};
    must(save, 4, pairs, 1);
    ck_assert(exists(separate[0], "step-00000001/model-00002-of-00004.safetensors"));
    ck_assert(exists(separate[1], "step-00000001/model-00003-of-00004.safetensors"));
    ck_assert(exists(separate[1], "step-00000001/manifest.json"));
    must(load, 4, pairs, 2);
    must(load, 2, separate, 2);
    must(save, 4, pairs, 3);
    ck_assert(!exists(separate[1], "step-00000002"));
    ck_assert(exists(separate[1], "step-00000003"));
}
END_TEST

/* A host that is a save behind takes all back to what it has. */
START_TEST(hosts_go_back_to_what_all_have)
{
    char path[5000];
    must(save, 2, separate, 1);
    snprintf(path, sizeof path, "%s/step-00000002", separate[1]);
    change(path, "rm -r %s");
    must(load, 2, separate, 1);
}
END_TEST

/* ---- ends at any point ----------------------------------------------------------- */

static const char *const points[] = {
    "snapshot",         "shard-half",    "shard-synced", "before-manifest",
    "manifest-written", "before-rename", "renamed",      "pruning"};

enum { POINTS = sizeof points / sizeof *points };

/* Two saves, then a third during which the process of that number ends all of them. */
START_TEST(killed_at_any_point_one_whole_checkpoint_is_newest)
{
    const int point = _i % POINTS, count = _i / POINTS % 2 ? 3 : 1;
    const char *const *dirs = _i / POINTS < 2 ? shared : separate;
    must(save, count, dirs, 1);
    const pid_t child = fork();
    if (child == 0) {
        group g;
        open_group(&g, count, dirs);
        g.all[0].strike = points[point];
        g.all[0].kill = 1;
        all_do(&g, save, 3);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s",
                  points[point]);
    group g;
    open_group(&g, count, dirs);
    ck_assert_msg(all_do(&g, load, 0) == PST_OK, "%s", g.all[0].err.text);
    const int64_t found = g.all[0].step;
    if (dirs == shared || count == 1)
        ck_assert_int_eq(found, point < 6 ? 2 : 3);
    else /* others may be a rename ahead or behind */
        ck_assert(found == 2 || found == 3);
    close_group(&g);
    must(save, count, dirs, found + 1);
    must(load, count, dirs, found + 2);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("checkpoint_processes");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_add_loop_test(all, any_number_loads_what_any_number_saved, 0, MOST * MOST);
    tcase_add_test(all, several_write_what_hugging_face_reads);
    tcase_add_test(all, a_process_without_tensors_writes_no_file);
    tcase_add_loop_test(all, the_one_before_a_torn_one_is_taken, 0,
                        sizeof damages / sizeof *damages);
    tcase_add_loop_test(all, what_one_cannot_write_is_everybodys_error, 0, 2);
    tcase_add_test(all, a_tensor_that_nobody_holds_is_named);
    tcase_add_test(all, what_two_hold_is_saved_once);
    tcase_add_loop_test(all, a_second_save_waits_for_the_first, 1, 4);
    tcase_add_test(all, each_host_keeps_its_own_and_sends_it);
    tcase_add_test(all, hosts_of_two_processes_have_one_folder);
    tcase_add_test(all, hosts_go_back_to_what_all_have);
    tcase_add_loop_test(all, killed_at_any_point_one_whole_checkpoint_is_newest, 0,
                        4 * POINTS);
    suite_add_tcase(suite, all);
    return suite;
}
