/* SPDX-License-Identifier: BSD-3-Clause */
/* manifest_json.c - manifest.json by jansson. */
#include "model/manifest.h"

#include <jansson.h>
#include <string.h>

#include <penstock/file.h>

#include "model/checkpoint_folder.h"
#include "model/peers.h"
#include "sched/careful_json.h"

enum { VERSION = 1 };

struct pst__manifest {
    pst_env env;
    json_t *root;
    json_t *content; /* borrowed from root                                     */
};

/* ---- writing --------------------------------------------------------------------- */

static json_t *digests(const pst_tensor *tensors, size_t count,
                       const char (*of)[PST_DIGEST_TEXT_SIZE])
{
    json_t *all = json_object();
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < count; i++)
        failed = json_object_set_new(all, tensors[i].name, json_string(of[i]));
    return pst__json_checked(all, failed);
}

/* NAME: FILE of all tensors. `part` is as files are named. */
static json_t *files(const pst_tensor *tensors, size_t count, const int *owners,
                     const char *part, int processes)
{
    json_t *all = json_object();
    char file[PST_CHECKPOINT_NAME];
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < count; i++)
        failed = json_object_set_new(
            all, tensors[i].name,
            json_string(pst__checkpoint_file(file, part, owners[i], processes)));
    return pst__json_checked(all, failed);
}

static json_t *weight_files(const pst__written *w)
{
    return files(w->state->weights, w->state->weight_count, w->owners, "model",
                 w->state->transport->processes);
}

static json_t *optimizer_files(const pst__written *w)
{
    return files(w->state->optimizer, w->state->optimizer_count,
                 w->owners + w->state->weight_count, "optimizer",
                 w->state->transport->processes);
}

static json_t *writers(const pst_transport *t)
{
    json_t *all = json_object();
    char file[PST_CHECKPOINT_NAME];
    int failed = 0;
    for (int i = 0; i < t->processes; i++) {
        const char *where = t->where(t->self, i);
        pst__checkpoint_file(file, "model", i, t->processes);
        failed |= json_object_set_new(all, file, json_string(where));
        pst__checkpoint_file(file, "optimizer", i, t->processes);
        failed |= json_object_set_new(all, file, json_string(where));
    }
    return pst__json_checked(all, failed);
}

static json_t *settings_of(const pst_checkpoint *state)
{
    json_t *all = json_object();
    int failed = 0;
    for (size_t i = 0; i < state->setting_count; i++)
        failed |= json_object_set_new(all, state->settings[i].name,
                                      json_string(state->settings[i].value));
    return pst__json_checked(all, failed);
}

static json_t *make_content(const pst__written *w)
{
    const pst_checkpoint *state = w->state;
    json_t *content =
        json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)state->step, "settings",
                  settings_of(state), "weights",
                  digests(state->weights, state->weight_count, w->digests), "optimizer",
                  digests(state->optimizer, state->optimizer_count,
                          w->digests + state->weight_count));
    if (content == NULL || pst__peers_count(state->transport) == 1)
        return content;
    int failed = json_object_set_new(content, "files",
                                     json_pack("{s:o, s:o}", "weights", weight_files(w),
                                               "optimizer", optimizer_files(w)));
    failed |= json_object_set_new(content, "writers", writers(state->transport));
    return pst__json_checked(content, failed);
}

/* SHA-256 of the content, written in one canonical way. False: no memory. */
static int content_digest(const pst_env *env, const json_t *content,
                          char text[PST_DIGEST_TEXT_SIZE])
{
    char *written = pst__json_dump(env, content, JSON_COMPACT | JSON_SORT_KEYS);
    if (written == NULL)
        return 0;
    pst__digest_bytes(written, strlen(written), text);
    pst_release(env, written);
    return 1;
}

static pst_status write_text(const pst_env *env, const char *path, const char *text,
                             pst_error *err)
{
    pst_file_writer *writer;
    pst_status status = pst_file_create(env, path, &writer, err);
    if (status != PST_OK)
        return status;
    status = pst_file_printf(writer, err, "%s\n", text);
    if (status == PST_OK)
        return pst_file_commit(writer, err);
    pst_file_discard(writer);
    return status;
}

pst_status pst__manifest_write(const pst_env *env, const char *path,
                               const pst__written *written, pst_error *err)
{
    char digest[PST_DIGEST_TEXT_SIZE];
    char *text = NULL;
    json_t *content = make_content(written);
    if (content != NULL && content_digest(env, content, digest)) {
        json_t *root = json_pack("{s:i, s:s, s:O}", "penstock_checkpoint", VERSION,
                                 "sha256", digest, "content", content);
        text = pst__json_dump(env, root, JSON_INDENT(2));
        json_decref(root);
    }
    json_decref(content);
    pst_status status = text != NULL ? write_text(env, path, text, err)
                                     : pst_error_no_memory(err, path, 0);
    pst_release(env, text);
    return status;
}

pst_status pst__index_write(const pst_env *env, const char *path,
                            const pst__written *written, pst_error *err)
{
    const pst_checkpoint *state = written->state;
    json_int_t bytes = 0;
    for (size_t i = 0; i < state->weight_count; i++)
        bytes += (json_int_t)(state->weights[i].count * sizeof(float));
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", bytes,
                             "weight_map", weight_files(written));
    char *text = pst__json_dump(env, root, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(root);
    pst_status status = text != NULL ? write_text(env, path, text, err)
                                     : pst_error_no_memory(err, path, 0);
    pst_release(env, text);
    return status;
}

/* ---- reading --------------------------------------------------------------------- */

static pst_status check(pst__manifest *manifest, const char *path, pst_error *err)
{
    char digest[PST_DIGEST_TEXT_SIZE];
    const char *written = json_string_value(json_object_get(manifest->root, "sha256"));
    const json_t *version = json_object_get(manifest->root, "penstock_checkpoint");
    manifest->content = json_object_get(manifest->root, "content");
    if (json_integer_value(version) > VERSION)
        return pst_error_set(
            err, PST_EFORMAT,
            "%s: written by a newer Penstock (form %lld; this one reads "
            "up to %d)",
            path, (long long)json_integer_value(version), VERSION);
    if (!json_is_object(manifest->content) || written == NULL ||
        json_integer_value(version) != VERSION)
        return pst_error_set(err, PST_EFORMAT,
                             "%s: this is not a checkpoint's manifest", path);
    if (!content_digest(&manifest->env, manifest->content, digest))
        return pst_error_no_memory(err, path, 0);
    if (strcmp(digest, written) != 0)
        return pst_error_set(err, PST_EFORMAT, "%s: its checksum is wrong", path);
    return PST_OK;
}

pst_status pst__manifest_parse(const pst_env *env, const char *path, const char *text,
                               size_t bytes, pst__manifest **out, pst_error *err)
{
    json_error_t why;
    pst_status status;
    pst__manifest *manifest = pst_allocate(env, sizeof *manifest);
    if (manifest == NULL)
        return pst_error_no_memory(err, path, sizeof *manifest);
    if (env != NULL)
        manifest->env = *env;
    bool no_memory;
    manifest->root = pst__json_load(text, bytes, &why, &no_memory);
    if (no_memory)
        status = pst_error_no_memory(err, path, bytes);
    else if (manifest->root == NULL)
        status = pst_error_set(err, PST_EFORMAT, "%s: line %d: this is not JSON", path,
                               why.line);
    else
        status = check(manifest, path, err);
    if (status == PST_OK)
        *out = manifest;
    else
        pst__manifest_close(manifest);
    return status;
}

const char *pst__manifest_sum(const pst__manifest *manifest)
{
    return json_string_value(json_object_get(manifest->root, "sha256"));
}

int64_t pst__manifest_step(const pst__manifest *manifest)
{
    return json_integer_value(json_object_get(manifest->content, "step"));
}

/* What a resumed run may change: the data fits, but the bits become others. Manifests
 * of older versions lack them. */
static const pst_setting may_differ[] = {{"data_parallel", "1"}, {"shares", "equal"}};

/* NULL: it may not. */
static const pst_setting *find_may_differ(const char *name)
{
    for (size_t i = 0; i < sizeof may_differ / sizeof *may_differ; i++)
        if (strcmp(may_differ[i].name, name) == 0)
            return &may_differ[i];
    return NULL;
}

pst_status pst__manifest_compare(const pst__manifest *manifest, const char *dir,
                                 const pst_checkpoint *state, pst_error *err)
{
    const json_t *settings = json_object_get(manifest->content, "settings");
    for (size_t i = 0; i < state->setting_count; i++) {
        const pst_setting *own = &state->settings[i];
        const pst_setting *otherwise = find_may_differ(own->name);
        const char *saved = json_string_value(json_object_get(settings, own->name));
        if (saved == NULL && otherwise != NULL)
            saved = otherwise->value;
        if (otherwise != NULL && strcmp(saved, own->value) != 0) {
            pst_log(
                &manifest->env, PST_LOG_WARNING,
                "%s: the checkpoint has %s %s and this run %s; the bits will differ "
                "from those of the unbroken run",
                dir, own->name, saved, own->value);
            continue;
        }
        if (saved == NULL || strcmp(saved, own->value) != 0)
            return pst_error_set(
                err, PST_EINVAL,
                "%s: the checkpoint has %s %s and this run %s; a resumed "
                "run must share it",
                dir, own->name, saved != NULL ? saved : "(none)", own->value);
    }
    return PST_OK;
}

const char *pst__manifest_digest(const pst__manifest *manifest, const char *part,
                                 const char *name)
{
    return json_string_value(
        json_object_get(json_object_get(manifest->content, part), name));
}

const char *pst__manifest_file(const pst__manifest *manifest, const char *part,
                               const char *name)
{
    const json_t *lists = json_object_get(manifest->content, "files");
    if (lists == NULL) /* of one process */
        return strcmp(part, "weights") == 0 ? "model.safetensors"
                                            : "optimizer.safetensors";
    const char *file =
        json_string_value(json_object_get(json_object_get(lists, part), name));
    return file != NULL && strchr(file, '/') == NULL ? file : NULL;
}

const char *pst__manifest_writer(const pst__manifest *manifest, const char *file)
{
    return json_string_value(
        json_object_get(json_object_get(manifest->content, "writers"), file));
}

void pst__manifest_close(pst__manifest *manifest)
{
    if (manifest == NULL)
        return;
    const pst_env env = manifest->env;
    json_decref(manifest->root);
    pst_release(&env, manifest);
}
