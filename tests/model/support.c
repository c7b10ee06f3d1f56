/* SPDX-License-Identifier: BSD-3-Clause */
/* support.c - see support.h. */
#include "tests/model/support.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/registry.h>

#include "model/philox.h"

static void set_default(int *value, int otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static small completed(const small *how)
{
    small s = *how;
    if (s.schedule == NULL)
        s.schedule = "1f1b";
    set_default(&s.stages, 1);
    set_default(&s.chunks, 1);
    set_default(&s.microbatches, 2);
    set_default(&s.data_parallel, 1);
    set_default(&s.batch, 4);
    set_default(&s.model.layers, 4);
    set_default(&s.model.heads, 2);
    set_default(&s.model.width, 16);
    set_default(&s.model.context, 8);
    set_default(&s.model.vocabulary, 32);
    return s;
}

pst_status small_trainer_try(const small *how, pst_trainer **out, pst_error *err)
{
    const small s = completed(how);
    const pst_shape shape = {.ranks = s.stages / s.chunks,
                             .microbatches = s.microbatches,
                             .chunks = s.chunks,
                             .slices = s.slices};
    pst_schedule *single, *schedule;
    pst_status status = pst_schedule_create(NULL, s.schedule, &shape, &single, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_replicate(NULL, single, s.data_parallel, &schedule, err);
    pst_schedule_destroy(single);
    if (status != PST_OK)
        return status;
    const pst_trainer_options options = {
        .model = s.model,
        .optimizer = s.optimizer,
        .batch = s.batch,
        .schedule = schedule,
        .seed = s.seed,
        .pipeline = {.team = s.team,
                     .delay_seed = s.delay_seed,
                     .transport = s.transport,
                     .process_of_rank = s.process_of_rank,
                     .topology_synthetic = s.topology},
        .decorate = s.decorate,
        .decorate_user = s.decorate_user,
        .shares = s.shares};
    status = pst_trainer_create(s.env, &options, out, err);
    pst_schedule_destroy(schedule);
    return status;
}

pst_trainer *small_trainer(const small *how)
{
    pst_error err = PST_ERROR_INIT;
    pst_trainer *trainer = NULL;
    ck_assert_msg(small_trainer_try(how, &trainer, &err) == PST_OK, "%s", err.text);
    return trainer;
}

void random_ids(int32_t *ids, size_t count, int vocabulary, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (size_t i = 0; i < count; i++) {
        const uint32_t counter[4] = {(uint32_t)i, 0, 0, 77};
        uint32_t bits[4];
        pst__philox(counter, key, bits);
        ids[i] = (int32_t)(bits[0] % (uint32_t)vocabulary);
    }
}

static double run(pst_trainer *trainer, const small *how, uint64_t data_seed, int step)
{
    const small s = completed(how);
    const size_t count = (size_t)s.batch * (size_t)s.model.context;
    int32_t *ids = malloc(2 * count * sizeof *ids);
    pst_error err = PST_ERROR_INIT;
    pst_step_report report;
    random_ids(ids, 2 * count, s.model.vocabulary, data_seed);
    const pst_status status =
        step ? pst_trainer_step(trainer, ids, ids + count, &report, &err)
             : pst_trainer_gradient(trainer, ids, ids + count, &report, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    free(ids);
    return report.loss;
}

double gradient_of(pst_trainer *trainer, const small *how, uint64_t data_seed)
{
    return run(trainer, how, data_seed, 0);
}

double step_of(pst_trainer *trainer, const small *how, uint64_t data_seed)
{
    return run(trainer, how, data_seed, 1);
}

char *make_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *path = malloc(4096);
    snprintf(path, 4096, "%s/pst-test-XXXXXX", base != NULL ? base : "/tmp");
    ck_assert_msg(mkdtemp(path) != NULL, "no folder can be made: %s", path);
    return path;
}

static void remove_inside(const char *path, int depth)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char inside[4608];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (depth > 0)
            remove_inside(inside, depth - 1);
        remove(inside);
    }
    if (folder != NULL)
        closedir(folder);
}

void remove_folder(char *path)
{
    remove_inside(path, 2);
    rmdir(path);
    free(path);
}

const char *in_folder(const char *path, const char *name)
{
    static char text[4][4608];
    static int next;
    next = (next + 1) % 4;
    snprintf(text[next], sizeof text[next], "%s/%s", path, name);
    return text[next];
}

void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s cannot be written", path);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

const char *data_file(const char *name)
{
    const char *top = getenv("srcdir");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/tests/data", top != NULL ? top : ".");
    return in_folder(folder, name);
}
