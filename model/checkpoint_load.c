/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checkpoint_load.c - loading: one manifest for all, then each tensor from a file that
 * this process sees, or from a process that does.
 */
#include <penstock/checkpoint.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <penstock/file.h>
#include <penstock/safetensors.h>

#include "model/checkpoint_folder.h"
#include "model/folder.h"
#include "model/manifest.h"
#include "model/peers.h"

/* Of a tensor and a process. */
enum { WANTED = 1, SEEN = 2 };

enum { FILE_SIZE = PST_CHECKPOINT_PATH + 256 };

/* One checkpoint that is tried. */
typedef struct loading {
    const pst_env *env;
    const pst_checkpoint *state;
    pst_transport *transport;
    size_t count; /* tensors, weights first                                      */
    char folder[PST_CHECKPOINT_PATH];
    pst__manifest *manifest;
    unsigned char *flags;       /* [count], and for several [processes][count]     */
    const unsigned char *table; /* [processes][count]                              */
    float *held;                /* what this process wants, then `spare`           */
    float *spare;               /* a tensor that is sent, and whether it is good   */
    char path[FILE_SIZE];       /* of the file that is open                        */
    pst_safetensors *file;
} loading;

static const pst_tensor *tensor_of(const loading *l, size_t i)
{
    return i < l->state->weight_count
               ? &l->state->weights[i]
               : &l->state->optimizer[i - l->state->weight_count];
}

static const char *part_of(const loading *l, size_t i)
{
    return i < l->state->weight_count ? "weights" : "optimizer";
}

static const char *file_of(const loading *l, size_t i)
{
    return pst__manifest_file(l->manifest, part_of(l, i), tensor_of(l, i)->name);
}

/* ---- the manifest ---------------------------------------------------------------- */

/* What a process says of the manifest in its folder. */
typedef struct offer {
    uint64_t bytes; /* 0: it has none that is good                               */
    char sum[PST_DIGEST_TEXT_SIZE];
} offer;

static pst_status parse(loading *l, int64_t step, const char *text, size_t bytes,
                        pst_error *err)
{
    char path[FILE_SIZE];
    snprintf(path, sizeof path, "%s/manifest.json", l->folder);
    pst_status status =
        pst__manifest_parse(l->env, path, text, bytes, &l->manifest, err);
    if (status == PST_OK && pst__manifest_step(l->manifest) != step)
        status = pst_error_set(err, PST_EFORMAT, "%s: it is of step %" PRId64, path,
                               pst__manifest_step(l->manifest));
    return status;
}

static void forget_manifest(loading *l)
{
    pst__manifest_close(l->manifest);
    l->manifest = NULL;
}

/* One that is good for those that have another or none; *text is this process's. What
 * it alone finds wrong goes into *mine. */
static pst_status spread(loading *l, int64_t step, const offer *all, char **text,
                         pst_error *mine, pst_error *err)
{
    const int processes = pst__peers_count(l->transport);
    const int own = pst__peers_own(l->transport);
    int from = 0, lacking = 0;
    while (from < processes && all[from].bytes == 0)
        from++;
    if (from == processes)
        return PST_OK; /* each has its own reason */
    for (int i = 0; i < processes; i++)
        lacking += all[i].bytes == 0 || strcmp(all[i].sum, all[from].sum) != 0;
    if (lacking == 0)
        return PST_OK;
    const int lacks = all[own].bytes == 0 || strcmp(all[own].sum, all[from].sum) != 0;
    pst_error why = PST_ERROR_INIT;
    if (lacks) {
        forget_manifest(l);
        pst_release(l->env, *text);
        *text = pst_allocate(l->env, all[from].bytes);
        if (*text == NULL)
            pst_error_no_memory(&why, "a manifest", all[from].bytes);
    }
    pst_status status = pst__peers_agree(l->transport, &why, err);
    if (status == PST_OK)
        status = pst__peers_broadcast(l->transport, from, *text, all[from].bytes, err);
    if (status == PST_OK && lacks)
        parse(l, step, *text, all[from].bytes, mine);
    return status;
}

static pst_status read_manifest(loading *l, int64_t step, pst_error *err)
{
    char path[FILE_SIZE], *text = NULL;
    size_t bytes = 0;
    pst_error own = PST_ERROR_INIT, later = PST_ERROR_INIT;
    snprintf(path, sizeof path, "%s/manifest.json", l->folder);
    if (pst_file_read(l->env, path, (size_t)1 << 30, &text, &bytes, &own) == PST_OK)
        parse(l, step, text, bytes, &own);
    offer mine = {.bytes = own.status == PST_OK ? bytes : 0};
    if (own.status == PST_OK)
        snprintf(mine.sum, sizeof mine.sum, "%s", pst__manifest_sum(l->manifest));
    else
        forget_manifest(l);
    const size_t processes = (size_t)pst__peers_count(l->transport);
    offer *all = pst_allocate_array(l->env, processes, sizeof *all);
    if (all == NULL)
        pst_error_no_memory(&later, path, processes * sizeof *all);
    pst_status status = pst__peers_agree(l->transport, &later, err);
    if (status == PST_OK)
        status = pst__peers_gather(l->transport, &mine, sizeof mine, all, err);
    if (status == PST_OK)
        status = spread(l, step, all, &text, &later, err);
    const int is_own = l->manifest == NULL && later.status == PST_OK;
    if (status == PST_OK)
        status = pst__peers_agree(l->transport, is_own ? &own : &later, err);
    pst_release(l->env, all);
    pst_release(l->env, text);
    return status;
}

/* ---- tensors --------------------------------------------------------------------- */

static pst_status open_file(loading *l, const char *path, pst_error *err)
{
    if (l->file != NULL && strcmp(l->path, path) == 0)
        return PST_OK;
    pst_safetensors_close(l->file);
    l->file = NULL;
    const pst_status status = pst_safetensors_open(l->env, path, &l->file, err);
    if (status == PST_OK)
        snprintf(l->path, sizeof l->path, "%s", path);
    else
        l->file = NULL;
    return status;
}

static pst_status read_tensor(loading *l, size_t i, float *to, pst_error *err)
{
    const pst_tensor *tensor = tensor_of(l, i);
    const char *file = file_of(l, i);
    const char *wanted = pst__manifest_digest(l->manifest, part_of(l, i), tensor->name);
    char path[FILE_SIZE], digest[PST_DIGEST_TEXT_SIZE];
    if (file == NULL || wanted == NULL)
        return pst_error_set(err, PST_EFORMAT, "%s/%s: tensor %s is missing", l->folder,
                             file != NULL ? file : "manifest.json", tensor->name);
    snprintf(path, sizeof path, "%s/%s", l->folder, file);
    pst_status status = open_file(l, path, err);
    if (status != PST_OK)
        return status;
    const long index = pst_safetensors_find(l->file, tensor->name);
    if (index < 0)
        return pst_error_set(err, PST_EFORMAT, "%s: tensor %s is missing", path,
                             tensor->name);
    const size_t count = pst_safetensors_tensor(l->file, (size_t)index, NULL)->count;
    if (count != tensor->count)
        return pst_error_set(err, PST_EFORMAT,
                             "%s: tensor %s has %zu elements; the model has %zu", path,
                             tensor->name, count, tensor->count);
    status = pst_safetensors_read(l->file, (size_t)index, to, err);
    if (status == PST_OK &&
        strcmp(pst__digest_floats(to, tensor->count, digest), wanted) != 0)
        status =
            pst_error_set(err, PST_EFORMAT, "%s: the checksum of tensor %s is wrong",
                          path, tensor->name);
    return status;
}

/* Does this process's folder have the file? Where nobody else could have it, or it is
 * not listed, the reading of it says what is missing. */
static int sees(const loading *l, size_t i)
{
    char path[FILE_SIZE];
    const char *file = file_of(l, i);
    if (file == NULL || (pst__peers_count(l->transport) == 1 &&
                         pst__manifest_writer(l->manifest, file) == NULL))
        return 1;
    snprintf(path, sizeof path, "%s/%s", l->folder, file);
    return pst__folder_has(path);
}

static int has(const loading *l, int process, size_t i, int flags)
{
    return (l->table[(size_t)process * l->count + i] & (WANTED | SEEN)) == flags;
}

/* Some process wants it and does not see it. */
static int is_lacked(const loading *l, size_t i)
{
    for (int k = 0; k < pst__peers_count(l->transport); k++)
        if (has(l, k, i, WANTED))
            return 1;
    return 0;
}

/* The lowest process that sees it, or -1. */
static int sender_of(const loading *l, size_t i)
{
    for (int k = 0; k < pst__peers_count(l->transport); k++)
        if (has(l, k, i, SEEN) || has(l, k, i, WANTED | SEEN))
            return k;
    return -1;
}

/* What all processes want and see. The table has been agreed on, so they find the same
 * tensor that none can have. */
static pst_status find_tensors(loading *l, pst_error *err)
{
    unsigned char *table = l->flags + l->count;
    for (size_t i = 0; i < l->count; i++)
        l->flags[i] = (unsigned char)((tensor_of(l, i)->data != NULL ? WANTED : 0) |
                                      (sees(l, i) ? SEEN : 0));
    l->table = table;
    const pst_status status =
        pst__peers_gather(l->transport, l->flags, l->count, table, err);
    for (size_t i = 0; status == PST_OK && i < l->count; i++) {
        if (!is_lacked(l, i) || sender_of(l, i) >= 0)
            continue;
        const char *file = file_of(l, i), *who = NULL;
        if (file != NULL)
            who = pst__manifest_writer(l->manifest, file);
        return pst_error_set(err, PST_EFORMAT,
                             "%s/%s: it was written by %s and no process of this run "
                             "sees it; tensor %s is in it",
                             l->folder, file != NULL ? file : "(no file)",
                             who != NULL ? who : "another process",
                             tensor_of(l, i)->name);
    }
    return status;
}

/* Room for what this process wants, and for one of those that are sent. */
static pst_status make_room(loading *l, pst_error *err)
{
    size_t floats = 0, most = 0;
    for (size_t i = 0; i < l->count; i++) {
        const size_t count = tensor_of(l, i)->count;
        if (tensor_of(l, i)->data != NULL)
            floats += count;
        if (is_lacked(l, i) && count + 1 > most)
            most = count + 1;
    }
    l->held = pst_allocate_array(l->env, floats + most, sizeof *l->held);
    if (l->held == NULL)
        return pst_error_no_memory(err, "a checkpoint",
                                   (floats + most) * sizeof *l->held);
    l->spare = l->held + floats;
    return PST_OK;
}

/* From the process that sees it to all; `to` is NULL where it is not wanted. What is
 * not good there is the sender's to tell of. */
static pst_status send_tensor(loading *l, size_t i, float *to, pst_error *own,
                              pst_error *err)
{
    const size_t count = tensor_of(l, i)->count;
    const int from = sender_of(l, i), process = pst__peers_own(l->transport);
    if (process == from)
        l->spare[count] = read_tensor(l, i, l->spare, own) == PST_OK;
    const pst_status status = pst__peers_broadcast(l->transport, from, l->spare,
                                                   (count + 1) * sizeof *l->spare, err);
    if (status == PST_OK && process != from && to != NULL && l->spare[count] != 0)
        memcpy(to, l->spare, count * sizeof *to);
    return status;
}

static pst_status read_tensors(loading *l, pst_error *err)
{
    pst_error own = PST_ERROR_INIT;
    float *to = l->held;
    for (size_t i = 0; i < l->count; i++) {
        const pst_tensor *tensor = tensor_of(l, i);
        const int wanted = tensor->data != NULL;
        if (wanted && sees(l, i) && own.status == PST_OK)
            read_tensor(l, i, to, &own);
        if (is_lacked(l, i)) {
            const pst_status status =
                send_tensor(l, i, wanted && !sees(l, i) ? to : NULL, &own, err);
            if (status != PST_OK)
                return status;
        }
        to += wanted ? tensor->count : 0;
    }
    return pst__peers_agree(l->transport, &own, err);
}

static void hand_over(const loading *l)
{
    const float *from = l->held;
    for (size_t i = 0; i < l->count; i++) {
        const pst_tensor *tensor = tensor_of(l, i);
        if (tensor->data == NULL)
            continue;
        memcpy(tensor->data, from, tensor->count * sizeof *from);
        from += tensor->count;
    }
}

/* ---- one checkpoint -------------------------------------------------------------- */

/* Everything in it is good and is loaded, by all processes; or nothing was. */
static pst_status load_tensors(loading *l, pst_error *err)
{
    pst_error own = PST_ERROR_INIT;
    const size_t rows = (size_t)pst__peers_count(l->transport) + 1;
    pst__manifest_compare(l->manifest, l->folder, l->state, &own);
    if (own.status == PST_OK) {
        l->flags = pst_allocate_array(l->env, l->count, rows);
        if (l->flags == NULL)
            pst_error_no_memory(&own, "a list of tensors", l->count * rows);
    }
    pst_status status = pst__peers_agree(l->transport, &own, err);
    if (status == PST_OK)
        status = find_tensors(l, err);
    if (status != PST_OK)
        return status;
    make_room(l, &own);
    status = pst__peers_agree(l->transport, &own, err);
    if (status == PST_OK)
        status = read_tensors(l, err);
    if (status == PST_OK)
        hand_over(l);
    return status;
}

static pst_status load_one(const pst_env *env, const char *dir, int64_t step,
                           const pst_checkpoint *state, pst_error *err)
{
    loading l = {.env = env,
                 .state = state,
                 .transport = state->transport,
                 .count = state->weight_count + state->optimizer_count};
    pst_error own = PST_ERROR_INIT;
    pst__checkpoint_path(l.folder, dir, step, "", &own);
    pst_status status = pst__peers_agree(state->transport, &own, err);
    if (status == PST_OK)
        status = read_manifest(&l, step, err);
    if (status == PST_OK)
        status = load_tensors(&l, err);
    pst_safetensors_close(l.file);
    pst__manifest_close(l.manifest);
    pst_release(env, l.flags);
    pst_release(env, l.held);
    return status;
}

/* ---- the newest that is good ----------------------------------------------------- */

/* The newest step below `below` that some process sees, -1: none. A folder that cannot
 * be read is an error where no process can read its own. */
static pst_status next_step(pst_transport *transport, const char *dir, int64_t below,
                            int64_t *step, pst_error *err)
{
    enum { UNREADABLE = -2 };
    pst_error own = PST_ERROR_INIT, memory = PST_ERROR_INIT;
    const size_t processes = (size_t)pst__peers_count(transport);
    int64_t mine = UNREADABLE;
    pst__checkpoint_newest(dir, below, &mine, &own);
    int64_t *all = pst_allocate_array(NULL, processes, sizeof *all);
    if (all == NULL)
        pst_error_no_memory(&memory, "a list of checkpoints", 0);
    pst_status status = pst__peers_agree(transport, &memory, err);
    if (status == PST_OK)
        status = pst__peers_gather(transport, &mine, sizeof mine, all, err);
    int64_t newest = UNREADABLE;
    for (size_t i = 0; status == PST_OK && i < processes; i++)
        newest = all[i] > newest ? all[i] : newest;
    pst_release(NULL, all);
    if (status == PST_OK && newest == UNREADABLE)
        status = pst__peers_agree(transport, &own, err);
    if (status == PST_OK)
        *step = newest;
    return status;
}

/* Another checkpoint would not help. */
static int is_final(pst_status status)
{
    return status == PST_OK || status == PST_EINVAL || status == PST_ENOMEM ||
           status == PST_EPEER;
}

/* One reader of the log hears of it, however many processes there are. */
static void warn(const pst_env *env, const pst_checkpoint *state, const pst_error *why)
{
    if (pst__peers_own(state->transport) == 0)
        pst_log(env, PST_LOG_WARNING, "%s; the one before it is tried", why->text);
}

pst_status pst_checkpoint_load(const pst_env *env, const char *dir,
                               const pst_checkpoint *state, int64_t *step,
                               pst_error *err)
{
    pst_error newest = PST_ERROR_INIT, last = PST_ERROR_INIT;
    for (int64_t next = INT64_MAX;;) {
        pst_status status = next_step(state->transport, dir, next, &next, err);
        if (status != PST_OK)
            return status;
        if (next < 0)
            break;
        if (last.status != PST_OK)
            warn(env, state, &last);
        last = (pst_error)PST_ERROR_INIT;
        status = load_one(env, dir, next, state, &last);
        if (status == PST_OK)
            *step = next;
        if (is_final(status))
            return status == PST_OK ? PST_OK
                                    : pst_error_set(err, status, "%s", last.text);
        if (newest.status == PST_OK)
            newest = last;
    }
    if (newest.status == PST_OK)
        return pst_error_set(
            err, PST_EFORMAT,
            "%s: there is no checkpoint in this folder; they are named "
            "step-00000100 and so on",
            dir);
    return pst_error_set(err, PST_EFORMAT, "%s; no checkpoint in %s is complete",
                         newest.text, dir);
}
