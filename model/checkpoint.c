/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.c - the folders of checkpoints: saved whole, found, checked, pruned. */
#include <penstock/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/file.h>
#include <penstock/safetensors.h>

#include "model/folder.h"
#include "model/manifest.h"

/* Of a file in a checkpoint: DIR, step-N.tmp and the longest name. */
enum { PATH_SIZE = 4096, NAME_SIZE = 64, KEPT = 2 };

/* Complete checkpoints of a folder, newest first, and folders that were left over. */
typedef struct listing {
    const pst_env *env;
    int64_t *steps;
    size_t count;
    size_t room;
} listing;

/* "step-00000100" exactly; -1 for other names. */
static int64_t step_of(const char *name)
{
    char same[NAME_SIZE];
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    const int64_t step = strtoll(name + 5, &end, 10);
    snprintf(same, sizeof same, "step-%08" PRId64, step);
    return strcmp(same, name) == 0 ? step : -1;
}

static pst_status add_step(void *user, const char *name, pst_error *err)
{
    listing *list = user;
    const int64_t step = step_of(name);
    if (step < 0)
        return PST_OK;
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? 2 * list->room : 16;
        int64_t *grown =
            list->room > 0 ? pst_grow(list->env, list->steps,
                                      list->room * sizeof *grown, room * sizeof *grown)
                           : pst_allocate_array(list->env, room, sizeof *grown);
        if (grown == NULL)
            return pst_error_no_memory(err, "a list of checkpoints", 0);
        list->steps = grown;
        list->room = room;
    }
    list->steps[list->count++] = step;
    return PST_OK;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

static pst_status list_steps(const pst_env *env, const char *dir, listing *list,
                             pst_error *err)
{
    *list = (listing){.env = env};
    const pst_status status = pst__folder_list(dir, add_step, list, err);
    if (list->count > 0)
        qsort(list->steps, list->count, sizeof *list->steps, newest_first);
    return status;
}

/* False: too long. */
static int path_of(char path[PATH_SIZE], const char *dir, int64_t step,
                   const char *rest)
{
    return snprintf(path, PATH_SIZE, "%s/step-%08" PRId64 "%s", dir, step, rest) <
           PATH_SIZE;
}

/* ---- saving -------------------------------------------------------------------- */

static pst_status write_files(const pst_env *env, const char *folder,
                              const pst_checkpoint *state, pst_error *err)
{
    static const pst_metadata metadata[] = {{"format", "pt"}};
    char path[PATH_SIZE + NAME_SIZE];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    pst_status status = pst_safetensors_write(env, path, state->weights,
                                              state->weight_count, metadata, 1, err);
    if (status != PST_OK)
        return status;
    snprintf(path, sizeof path, "%s/optimizer.safetensors", folder);
    status = pst_safetensors_write(env, path, state->optimizer, state->optimizer_count,
                                   NULL, 0, err);
    if (status != PST_OK)
        return status;
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    status = pst__manifest_write(env, path, state, err);
    return status == PST_OK ? pst__folder_sync(folder, err) : status;
}

static void warn(const pst_env *env, const pst_error *err)
{
    pst_log(env, PST_LOG_WARNING, "%s", err->text);
}

/* What is too old goes; that it will not go is no reason to fail. */
static void prune(const pst_env *env, const char *dir)
{
    pst_error err = PST_ERROR_INIT;
    listing list;
    char path[PATH_SIZE];
    pst_status status = list_steps(env, dir, &list, &err);
    for (size_t i = KEPT; status == PST_OK && i < list.count; i++)
        if (path_of(path, dir, list.steps[i], ""))
            status = pst__folder_remove(path, &err);
    if (status != PST_OK)
        warn(env, &err);
    pst_release(env, list.steps);
}

/* The finished folder takes its name. */
static pst_status publish(const char *dir, const char *unfinished, const char *finished,
                          pst_error *err)
{
    const bool again = pst__folder_has(finished);
    pst_status status = again ? pst__folder_exchange(unfinished, finished, err)
                              : pst__folder_rename(unfinished, finished, err);
    if (status == PST_OK)
        status = pst__folder_sync(dir, err);
    if (status == PST_OK && again)
        status = pst__folder_remove(unfinished, err);
    return status;
}

pst_status pst_checkpoint_prepare(const pst_env *env, const char *dir, pst_error *err)
{
    char probe[PATH_SIZE];
    pst_file_writer *writer;
    if (snprintf(probe, sizeof probe, "%s/probe", dir) >= PATH_SIZE)
        return pst_error_set(err, PST_EINVAL, "%.100s...: this path is too long", dir);
    pst_status status = pst__folder_make(env, dir, err);
    if (status == PST_OK)
        status = pst_file_create(env, probe, &writer, err);
    if (status == PST_OK)
        pst_file_discard(writer);
    return status;
}

pst_status pst_checkpoint_save(const pst_env *env, const char *dir,
                               const pst_checkpoint *state, pst_error *err)
{
    char unfinished[PATH_SIZE], finished[PATH_SIZE];
    if (!path_of(unfinished, dir, state->step, ".tmp") ||
        !path_of(finished, dir, state->step, ""))
        return pst_error_set(err, PST_EINVAL, "%.100s...: this path is too long", dir);
    pst_status status = pst__folder_make(env, dir, err);
    if (status == PST_OK && pst__folder_has(unfinished))
        status = pst__folder_remove(unfinished, err);
    if (status == PST_OK)
        status = pst__folder_make(env, unfinished, err);
    if (status != PST_OK)
        return status;
    status = write_files(env, unfinished, state, err);
    if (status == PST_OK)
        status = publish(dir, unfinished, finished, err);
    if (status == PST_OK)
        prune(env, dir);
    else
        pst__folder_remove(unfinished, NULL);
    return status;
}

/* ---- loading ------------------------------------------------------------------- */

/* All tensors of one file, read and checked but not yet handed over. */
static pst_status read_part(const pst_env *env, const char *folder, const char *part,
                            const char *file_name, const pst__manifest *manifest,
                            const pst_tensor *tensors, size_t count, float *to,
                            pst_error *err)
{
    char path[PATH_SIZE + NAME_SIZE], digest[PST_DIGEST_TEXT_SIZE];
    pst_safetensors *file;
    snprintf(path, sizeof path, "%s/%s", folder, file_name);
    pst_status status = pst_safetensors_open(env, path, &file, err);
    if (status != PST_OK)
        return status;
    for (size_t i = 0; status == PST_OK && i < count; to += tensors[i++].count) {
        const char *name = tensors[i].name;
        const char *wanted = pst__manifest_digest(manifest, part, name);
        const long index = pst_safetensors_find(file, name);
        if (index < 0 || wanted == NULL)
            status =
                pst_error_set(err, PST_EFORMAT, "%s: tensor %s is missing", path, name);
        else if (pst_safetensors_tensor(file, (size_t)index, NULL)->count !=
                 tensors[i].count)
            status = pst_error_set(
                err, PST_EFORMAT, "%s: tensor %s has %zu elements; the model has %zu",
                path, name, pst_safetensors_tensor(file, (size_t)index, NULL)->count,
                tensors[i].count);
        else
            status = pst_safetensors_read(file, (size_t)index, to, err);
        if (status == PST_OK &&
            strcmp(pst__digest_floats(to, tensors[i].count, digest), wanted) != 0)
            status = pst_error_set(
                err, PST_EFORMAT, "%s: the checksum of tensor %s is wrong", path, name);
    }
    pst_safetensors_close(file);
    return status;
}

static size_t total(const pst_tensor *tensors, size_t count)
{
    size_t floats = 0;
    for (size_t i = 0; i < count; i++)
        floats += tensors[i].count;
    return floats;
}

static void hand_over(const pst_tensor *tensors, size_t count, const float *from)
{
    for (size_t i = 0; i < count; from += tensors[i++].count)
        memcpy(tensors[i].data, from, tensors[i].count * sizeof *from);
}

/* Everything in `folder` is good, and is loaded; or nothing was. */
static pst_status load_tensors(const pst_env *env, const char *folder,
                               const pst__manifest *manifest,
                               const pst_checkpoint *state, pst_error *err)
{
    const size_t weights = total(state->weights, state->weight_count);
    const size_t optimizer = total(state->optimizer, state->optimizer_count);
    float *held = pst_allocate_array(env, weights + optimizer, sizeof *held);
    if (held == NULL)
        return pst_error_no_memory(err, "a checkpoint",
                                   (weights + optimizer) * sizeof *held);
    pst_status status = read_part(env, folder, "weights", "model.safetensors", manifest,
                                  state->weights, state->weight_count, held, err);
    if (status == PST_OK)
        status =
            read_part(env, folder, "optimizer", "optimizer.safetensors", manifest,
                      state->optimizer, state->optimizer_count, held + weights, err);
    if (status == PST_OK) {
        hand_over(state->weights, state->weight_count, held);
        hand_over(state->optimizer, state->optimizer_count, held + weights);
    }
    pst_release(env, held);
    return status;
}

static pst_status load_one(const pst_env *env, const char *dir, int64_t step,
                           const pst_checkpoint *state, pst_error *err)
{
    char folder[PATH_SIZE], path[PATH_SIZE + NAME_SIZE];
    pst__manifest *manifest;
    if (!path_of(folder, dir, step, ""))
        return pst_error_set(err, PST_EINVAL, "%.100s...: this path is too long", dir);
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    pst_status status = pst__manifest_read(env, path, &manifest, err);
    if (status != PST_OK)
        return status;
    if (pst__manifest_step(manifest) != step)
        status = pst_error_set(err, PST_EFORMAT, "%s: it is of step %" PRId64, path,
                               pst__manifest_step(manifest));
    if (status == PST_OK)
        status = pst__manifest_compare(manifest, folder, state, err);
    if (status == PST_OK)
        status = load_tensors(env, folder, manifest, state, err);
    pst__manifest_close(manifest);
    return status;
}

/* Another checkpoint would not help. */
static int is_final(pst_status status)
{
    return status == PST_OK || status == PST_EINVAL || status == PST_ENOMEM;
}

pst_status pst_checkpoint_load(const pst_env *env, const char *dir,
                               const pst_checkpoint *state, int64_t *step,
                               pst_error *err)
{
    listing list;
    pst_error newest = PST_ERROR_INIT;
    pst_status status = list_steps(env, dir, &list, err);
    bool found = false;
    for (size_t i = 0; status == PST_OK && !found && i < list.count; i++) {
        pst_error own = PST_ERROR_INIT;
        const pst_status loaded = load_one(env, dir, list.steps[i], state, &own);
        found = loaded == PST_OK;
        if (found)
            *step = list.steps[i];
        else if (is_final(loaded))
            status = pst_error_set(err, loaded, "%s", own.text);
        else if (i + 1 < list.count)
            pst_log(env, PST_LOG_WARNING, "%s; the one before it is tried", own.text);
        if (newest.status == PST_OK)
            newest = own;
    }
    if (status == PST_OK && !found && list.count == 0)
        status =
            pst_error_set(err, PST_EFORMAT,
                          "%s: there is no checkpoint in this folder; they are named "
                          "step-00000100 and so on",
                          dir);
    else if (status == PST_OK && !found)
        status = pst_error_set(err, PST_EFORMAT, "%s; no checkpoint in %s is complete",
                               newest.text, dir);
    pst_release(env, list.steps);
    return status;
}
