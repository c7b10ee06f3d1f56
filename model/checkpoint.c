/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checkpoint.c - saving: copy, write on a thread, list when all have written.
 *
 * What holds between the calls of a writer:
 *   idle     task NULL, under_way 0; DIR has no folder of ours that is unfinished
 *   writing  the thread alone touches failure, digests and the copy
 *   written  pst_task_done(); one process: all is done but the joining
 */
#include <penstock/checkpoint.h>

#include <stdio.h>
#include <string.h>

#include <penstock/file.h>
#include <penstock/safetensors.h>
#include <penstock/task.h>

#include "model/checkpoint_folder.h"
#include "model/folder.h"
#include "model/manifest.h"
#include "model/peers.h"

typedef char digest_text[PST_DIGEST_TEXT_SIZE];

struct pst_checkpoint_writer {
    pst_env env;
    pst_env io; /* of whoever writes: a thread of ours takes malloc's memory        */
    char dir[PST_CHECKPOINT_PATH];
    int home; /* lowest process that has this folder; -1: not known yet          */

    pst_checkpoint state; /* points to what follows                              */
    size_t count;         /* tensors, weights first                              */
    size_t room;          /* for tensors in the tables                           */
    size_t settings_room;
    pst_tensor *tensors; /* [count] data: what this process writes, else NULL     */
    pst_tensor *mine;    /* of those, for the files                               */
    pst_setting *settings;
    int *owners;          /* [count]                                             */
    char *held;           /* [processes + 1][count + 1] own, then all             */
    digest_text *digests; /* [count], and for several [processes][count] behind   */

    float *copy;
    size_t copy_room; /* floats                                                  */
    pst_task *task;
    int under_way;
    pst_error failure; /* of this process's part                                 */
};

pst_status pst_checkpoint_prepare(const pst_env *env, const char *dir, pst_error *err)
{
    char probe[PST_CHECKPOINT_PATH];
    pst_file_writer *writer;
    if (snprintf(probe, sizeof probe, "%s/probe", dir) >= PST_CHECKPOINT_PATH)
        return pst_error_set(err, PST_EINVAL, "%.100s...: this path is too long", dir);
    pst_status status = pst__folder_make(env, dir, err);
    if (status == PST_OK)
        status = pst_file_create(env, probe, &writer, err);
    if (status == PST_OK)
        pst_file_discard(writer);
    return status;
}

/* ---- memory ---------------------------------------------------------------------- */

static size_t processes_of(const pst_checkpoint_writer *w)
{
    return (size_t)pst__peers_count(w->state.transport);
}

static void release_tables(pst_checkpoint_writer *w)
{
    pst_release(&w->env, w->tensors);
    pst_release(&w->env, w->mine);
    pst_release(&w->env, w->owners);
    pst_release(&w->env, w->held);
    pst_release(&w->env, w->digests);
    w->tensors = w->mine = NULL;
    w->owners = NULL;
    w->held = NULL;
    w->digests = NULL;
    w->room = 0;
}

static pst_status make_tables(pst_checkpoint_writer *w, pst_error *err)
{
    const size_t n = w->count, several = processes_of(w) > 1 ? processes_of(w) : 0;
    if (n <= w->room && w->tensors != NULL)
        return PST_OK;
    release_tables(w);
    w->tensors = pst_allocate_array(&w->env, n, sizeof *w->tensors);
    w->mine = pst_allocate_array(&w->env, n, sizeof *w->mine);
    w->owners = pst_allocate_array(&w->env, n, sizeof *w->owners);
    w->held = pst_allocate_array(&w->env, n + 1, processes_of(w) + 1);
    w->digests = pst_allocate_array(&w->env, n * (several + 1), sizeof *w->digests);
    if (w->tensors && w->mine && w->owners && w->held && w->digests) {
        w->room = n;
        return PST_OK;
    }
    release_tables(w);
    return pst_error_no_memory(err, "a list of tensors", n * sizeof *w->tensors);
}

static pst_status make_settings(pst_checkpoint_writer *w, pst_error *err)
{
    const size_t n = w->state.setting_count;
    if (n > w->settings_room || w->settings == NULL) {
        pst_release(&w->env, w->settings);
        w->settings = pst_allocate_array(&w->env, n, sizeof *w->settings);
        w->settings_room = w->settings != NULL ? n : 0;
    }
    if (w->settings == NULL)
        return pst_error_no_memory(err, "settings", n * sizeof *w->settings);
    return PST_OK;
}

static pst_status make_copy(pst_checkpoint_writer *w, pst_error *err)
{
    size_t floats = 0;
    for (size_t i = 0; i < w->count; i++)
        floats += w->tensors[i].data != NULL ? w->tensors[i].count : 0;
    if (floats > w->copy_room || w->copy == NULL) {
        pst_release(&w->env, w->copy);
        w->copy = pst_allocate_array(&w->env, floats, sizeof *w->copy);
        w->copy_room = w->copy != NULL ? floats : 0;
    }
    if (w->copy == NULL)
        return pst_error_no_memory(err, "a copy of the state",
                                   floats * sizeof *w->copy);
    float *to = w->copy;
    for (size_t i = 0; i < w->count; i++) {
        pst_tensor *tensor = &w->tensors[i];
        if (tensor->data == NULL)
            continue;
        memcpy(to, tensor->data, tensor->count * sizeof *to);
        tensor->data = to;
        to += tensor->count;
    }
    return PST_OK;
}

static pst_status set_folder(pst_checkpoint_writer *w, const char *dir, pst_error *err)
{
    if (strlen(dir) >= sizeof w->dir)
        return pst_error_set(err, PST_EINVAL, "%.100s...: this path is too long", dir);
    strcpy(w->dir, dir);
    w->home = -1;
    return PST_OK;
}

static pst_status make_writer(const pst_env *env, pst_checkpoint_writer **writer,
                              pst_error *err)
{
    pst_checkpoint_writer *w = pst_allocate(env, sizeof *w);
    if (w == NULL)
        return pst_error_no_memory(err, "a checkpoint's writer", sizeof *w);
    if (env != NULL)
        w->env = *env;
    w->home = -1;
    *writer = w;
    return PST_OK;
}

/* All that a save of `state` needs, apart from what other processes have to say. */
static pst_status take(const pst_env *env, const char *dir, const pst_checkpoint *state,
                       pst_checkpoint_writer **writer, pst_error *err)
{
    pst_status status = PST_OK;
    if (*writer == NULL && (status = make_writer(env, writer, err)) != PST_OK)
        return status;
    pst_checkpoint_writer *w = *writer;
    if (w->under_way)
        return pst_error_set(err, PST_EINVAL, "%s: a save is under way", dir);
    if (strcmp(w->dir, dir) != 0 && (status = set_folder(w, dir, err)) != PST_OK)
        return status;
    w->state = *state;
    w->count = state->weight_count + state->optimizer_count;
    w->failure = (pst_error)PST_ERROR_INIT;
    if ((status = make_tables(w, err)) != PST_OK ||
        (status = make_settings(w, err)) != PST_OK ||
        (status = pst__folder_make(env, dir, err)) != PST_OK)
        return status;
    for (size_t i = 0; i < w->count; i++)
        w->tensors[i] = i < state->weight_count
                            ? state->weights[i]
                            : state->optimizer[i - state->weight_count];
    if (state->setting_count > 0)
        memcpy(w->settings, state->settings,
               state->setting_count * sizeof *w->settings);
    w->state.weights = w->tensors;
    w->state.optimizer = w->tensors + state->weight_count;
    w->state.settings = w->settings;
    return PST_OK;
}

/* Whose file gets each tensor: the lowest process's that holds it. */
static pst_status share_out(pst_checkpoint_writer *w, pst_error *err)
{
    char *own = w->held, *all = w->held + w->count;
    for (size_t i = 0; i < w->count; i++)
        own[i] = w->tensors[i].data != NULL;
    const pst_status status =
        pst__peers_gather(w->state.transport, own, w->count, all, err);
    if (status != PST_OK)
        return status;
    for (size_t i = 0; i < w->count; i++) {
        size_t owner = 0;
        while (owner < processes_of(w) && !all[owner * w->count + i])
            owner++;
        if (owner == processes_of(w))
            return pst_error_set(err, PST_EINVAL,
                                 "tensor %s: no process holds it, so that it cannot be "
                                 "saved",
                                 w->tensors[i].name);
        w->owners[i] = (int)owner;
        if (w->owners[i] != pst__peers_own(w->state.transport))
            w->tensors[i].data = NULL;
    }
    return PST_OK;
}

/* ---- writing --------------------------------------------------------------------- */

static int is_home(const pst_checkpoint_writer *w)
{
    return w->home == pst__peers_own(w->state.transport);
}

/* Of the process's part of "model" or "optimizer"; one that has none writes no file. */
static pst_status write_part(pst_checkpoint_writer *w, const char *part, size_t first,
                             size_t count, const pst_metadata *metadata, pst_error *err)
{
    char folder[PST_CHECKPOINT_PATH], name[PST_CHECKPOINT_NAME];
    char path[PST_CHECKPOINT_PATH + PST_CHECKPOINT_NAME];
    size_t mine = 0;
    for (size_t i = first; i < first + count; i++)
        if (w->tensors[i].data != NULL) {
            pst__digest_floats(w->tensors[i].data, w->tensors[i].count, w->digests[i]);
            w->mine[mine++] = w->tensors[i];
        }
    if (mine == 0 && processes_of(w) > 1)
        return PST_OK;
    pst_status status =
        pst__checkpoint_path(folder, w->dir, w->state.step, ".tmp", err);
    if (status != PST_OK)
        return status;
    pst__checkpoint_file(name, part, pst__peers_own(w->state.transport),
                         pst__peers_count(w->state.transport));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return pst_safetensors_write(&w->io, path, w->mine, mine, metadata,
                                 metadata != NULL, err);
}

static pst_status write_shard(pst_checkpoint_writer *w, pst_error *err)
{
    static const pst_metadata metadata = {"format", "pt"};
    const pst_checkpoint *state = &w->state;
    pst_status status = write_part(w, "model", 0, state->weight_count, &metadata, err);
    if (status == PST_OK)
        status = write_part(w, "optimizer", state->weight_count, state->optimizer_count,
                            NULL, err);
    if (status == PST_OK)
        pst__checkpoint_point(&w->io, "shard-synced");
    return status;
}

/* What says which tensor is where, when all of them are there. */
static pst_status write_lists(const pst_checkpoint_writer *w, pst_error *err)
{
    const pst__written written = {.state = &w->state,
                                  .digests = (const digest_text *)w->digests,
                                  .owners = w->owners};
    char folder[PST_CHECKPOINT_PATH], path[PST_CHECKPOINT_PATH + PST_CHECKPOINT_NAME];
    pst_status status =
        pst__checkpoint_path(folder, w->dir, w->state.step, ".tmp", err);
    if (status == PST_OK && processes_of(w) > 1) {
        snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
        status = pst__index_write(&w->io, path, &written, err);
    }
    if (status != PST_OK)
        return status;
    pst__checkpoint_point(&w->io, "before-manifest");
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    status = pst__manifest_write(&w->io, path, &written, err);
    if (status == PST_OK)
        pst__checkpoint_point(&w->io, "manifest-written");
    return status == PST_OK ? pst__folder_sync(folder, err) : status;
}

static pst_status write_alone(pst_checkpoint_writer *w, pst_error *err)
{
    pst_status status = write_shard(w, err);
    if (status == PST_OK)
        status = write_lists(w, err);
    if (status == PST_OK)
        status = pst__checkpoint_publish(&w->io, w->dir, w->state.step, err);
    if (status == PST_OK)
        pst__checkpoint_prune(&w->io, w->dir);
    else
        pst__checkpoint_drop(w->dir, w->state.step);
    return status;
}

/* The whole of it for one process, else its own part. */
static void write_own(void *argument)
{
    pst_checkpoint_writer *w = argument;
    if (processes_of(w) == 1)
        write_alone(w, &w->failure);
    else
        write_shard(w, &w->failure);
}

/* ---- what all do together -------------------------------------------------------- */

/* Up to the point where the files can be written. */
static pst_status start(const pst_env *env, const char *dir,
                        const pst_checkpoint *state, pst_checkpoint_writer **writer,
                        int copies, pst_error *err)
{
    pst_error own = PST_ERROR_INIT;
    take(env, dir, state, writer, &own);
    pst_status status = pst__peers_agree(state->transport, &own, err);
    if (status != PST_OK)
        return status;
    pst_checkpoint_writer *w = *writer;
    if (w->home < 0)
        status = pst__peers_home(env, state->transport, dir, &w->home, err);
    if (status == PST_OK)
        status = share_out(w, err);
    if (status != PST_OK)
        return status;
    if (copies)
        make_copy(w, &own);
    if (own.status == PST_OK && is_home(w))
        pst__checkpoint_make(env, dir, state->step, &own);
    status = pst__peers_agree(state->transport, &own, err);
    if (status != PST_OK) {
        if (own.status == PST_OK && is_home(w))
            pst__checkpoint_drop(dir, state->step);
        return status;
    }
    pst__checkpoint_point(env, "snapshot");
    w->under_way = 1;
    return PST_OK;
}

static pst_status gather_digests(pst_checkpoint_writer *w, pst_error *err)
{
    const digest_text *all = (const digest_text *)w->digests + w->count;
    const pst_status status =
        pst__peers_gather(w->state.transport, w->digests, w->count * sizeof *all,
                          w->digests + w->count, err);
    for (size_t i = 0; status == PST_OK && i < w->count; i++)
        memcpy(w->digests[i], all[(size_t)w->owners[i] * w->count + i], sizeof *all);
    return status;
}

/* All have written, or one has not: each folder's first process ends it for the
 * others, one act at a time, and the next only when all are through with the last. */
static pst_status end_together(pst_checkpoint_writer *w, pst_error *err)
{
    pst_transport *t = w->state.transport;
    pst_error own = w->failure;
    pst_status status = pst__peers_agree(t, &own, err);
    if (status == PST_OK)
        status = gather_digests(w, err);
    if (status == PST_OK && is_home(w))
        write_lists(w, &own);
    if (status == PST_OK)
        status = pst__peers_agree(t, &own, err);
    if (status == PST_OK && is_home(w))
        pst__checkpoint_publish(&w->io, w->dir, w->state.step, &own);
    if (status == PST_OK)
        status = pst__peers_agree(t, &own, err);
    if (is_home(w)) {
        if (status == PST_OK)
            pst__checkpoint_prune(&w->io, w->dir);
        else
            pst__checkpoint_drop(w->dir, w->state.step);
    }
    return status;
}

/* When the thread is through, or there was none. */
static pst_status end(pst_checkpoint_writer *w, pst_error *err)
{
    pst_task_wait(w->task);
    w->task = NULL;
    w->under_way = 0;
    w->io = w->env;
    if (processes_of(w) > 1)
        return end_together(w, err);
    if (w->failure.status == PST_OK)
        return PST_OK;
    return pst_error_set(err, w->failure.status, "%s", w->failure.text);
}

/* ---- calls ----------------------------------------------------------------------- */

pst_status pst_checkpoint_save(const pst_env *env, const char *dir,
                               const pst_checkpoint *state, pst_error *err)
{
    pst_checkpoint_writer *w = NULL;
    pst_status status = start(env, dir, state, &w, 0, err);
    if (status == PST_OK) {
        w->io = w->env;
        write_own(w);
        status = end(w, err);
    }
    pst_checkpoint_writer_destroy(w);
    return status;
}

pst_status pst_checkpoint_begin(const pst_env *env, const char *dir,
                                const pst_checkpoint *state,
                                pst_checkpoint_writer **writer, pst_error *err)
{
    const pst_status status = start(env, dir, state, writer, 1, err);
    if (status != PST_OK)
        return status;
    pst_checkpoint_writer *w = *writer;
    w->io = (pst_env){.log = w->env.log, .user = w->env.user};
    /* Others have begun by now: that there is no thread is for finish to tell. */
    if (pst_task_start(env, "checkpoint", write_own, w, &w->task, &w->failure) !=
            PST_OK &&
        processes_of(w) == 1)
        pst__checkpoint_drop(dir, state->step);
    return PST_OK;
}

pst_status pst_checkpoint_poll(pst_checkpoint_writer *writer, int *done, pst_error *err)
{
    if (writer == NULL || !writer->under_way) {
        *done = 1;
        return PST_OK;
    }
    const char own = writer->task == NULL || pst_task_done(writer->task);
    /* Behind each process's own, which share_out() has used. */
    char *all = writer->held;
    pst_status status = pst__peers_gather(writer->state.transport, &own, 1, all, err);
    if (status == PST_OK && memchr(all, 0, processes_of(writer)) != NULL) {
        *done = 0;
        return PST_OK;
    }
    const pst_status ended = end(writer, err);
    *done = 1;
    return status != PST_OK ? status : ended;
}

pst_status pst_checkpoint_finish(pst_checkpoint_writer *writer, pst_error *err)
{
    if (writer == NULL || !writer->under_way)
        return PST_OK;
    return end(writer, err);
}

void pst_checkpoint_writer_destroy(pst_checkpoint_writer *writer)
{
    if (writer == NULL)
        return;
    const pst_env env = writer->env;
    pst_task_wait(writer->task);
    release_tables(writer);
    pst_release(&env, writer->settings);
    pst_release(&env, writer->copy);
    pst_release(&env, writer);
}
