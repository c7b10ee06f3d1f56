/* SPDX-License-Identifier: BSD-3-Clause */
/* csv_meta_json.c - see csv_meta.h. */
#include "sched/csv_meta.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <penstock/file.h>

#include "sched/careful_json.h"
#include "sched/os.h"

enum { FORM = 1, FILE_LIMIT = 1 << 20, ABSENT = 0, REGULAR = 1 };

static const char ending[] = ".meta.json";

/* path + ".meta.json", the caller's; NULL: no memory. */
static char *meta_path(const pst_env *env, const char *path)
{
    const size_t size = strlen(path) + sizeof ending;
    char *own = pst_allocate(env, size);
    if (own != NULL)
        snprintf(own, size, "%s%s", path, ending);
    return own;
}

static pst_status take_count(const json_t *root, const char *key, const char *path,
                             int *value, pst_error *err)
{
    const json_t *number = json_object_get(root, key);
    if (number == NULL || *value != 0)
        return PST_OK;
    if (!json_is_integer(number) || json_integer_value(number) < 1 ||
        json_integer_value(number) > 65535)
        return pst_error_set_at(err, PST_EFORMAT, path, 0,
                                "\"%s\" must be a number from 1 to 65535", key);
    *value = (int)json_integer_value(number);
    return PST_OK;
}

static const char *const policy_names[] = {"stash", "double"}; /* pst_weight_policy */

static pst_status take_extension(const json_t *root, const char *path,
                                 pst_csv_options *options, pst_error *err)
{
    const json_t *extended = json_object_get(root, "extended");
    const json_t *policy = json_object_get(root, "weight_policy");
    if (extended != NULL && !json_is_boolean(extended))
        return pst_error_set_at(err, PST_EFORMAT, path, 0,
                                "\"extended\" must be true or false");
    options->extended |= json_is_true(extended);
    if (policy == NULL)
        return PST_OK;
    for (int i = 0; i < 2; i++)
        if (json_is_string(policy) &&
            strcmp(json_string_value(policy), policy_names[i]) == 0) {
            if (options->weight_policy == PST_VERSIONS_STASH)
                options->weight_policy = (pst_weight_policy)i;
            return PST_OK;
        }
    return pst_error_set_at(err, PST_EFORMAT, path, 0,
                            "\"weight_policy\" must be \"stash\" or \"double\"");
}

static pst_status parse(const char *path, const char *text, size_t bytes,
                        pst_csv_options *options, pst_error *err)
{
    json_error_t why;
    bool no_memory;
    json_t *root = pst__json_load(text, bytes, &why, &no_memory);
    if (no_memory)
        return pst_error_no_memory(err, path, bytes);
    if (root == NULL)
        return pst_error_set_at(err, PST_EFORMAT, path, why.line,
                                "this is not JSON: %s", why.text);
    pst_status status = PST_OK;
    const json_int_t form =
        json_integer_value(json_object_get(root, "penstock_schedule"));
    if (form != FORM)
        status =
            pst_error_set_at(err, PST_EFORMAT, path, 0,
                             "\"penstock_schedule\" is %lld; this version reads %d",
                             (long long)form, FORM);
    if (status == PST_OK)
        status = take_count(root, "replicas", path, &options->replicas, err);
    if (status == PST_OK)
        status = take_count(root, "slices", path, &options->slices, err);
    if (status == PST_OK)
        status = take_count(root, "data_parallel", path, &options->data_parallel, err);
    if (status == PST_OK)
        status = take_extension(root, path, options, err);
    json_decref(root);
    return status;
}

pst_status pst__csv_meta_read(const pst_env *env, const char *path,
                              pst_csv_options *options, pst_error *err)
{
    char *text, *meta = meta_path(env, path);
    size_t bytes;
    if (meta == NULL)
        return pst_error_no_memory(err, path, strlen(path));
    pst_status status = PST_OK;
    if (pst__os_kind(meta, NULL) == REGULAR) {
        status = pst_file_read(env, meta, FILE_LIMIT, &text, &bytes, err);
        if (status == PST_OK) {
            status = parse(meta, text, bytes, options, err);
            pst_release(env, text);
        }
    }
    pst_release(env, meta);
    return status;
}

static pst_status write_meta(const pst_env *env, const pst_schedule *schedule,
                             const char *path, pst_file_writer **out, pst_error *err)
{
    pst_file_writer *writer;
    pst_status status = pst_file_create(env, path, &writer, err);
    if (status != PST_OK)
        return status;
    status = pst_file_printf(
        writer, err, "{\"penstock_schedule\": %d, \"replicas\": %d, \"slices\": %d",
        FORM, pst_schedule_replicas(schedule), pst_schedule_slices(schedule));
    if (status == PST_OK && pst_schedule_data_parallel(schedule) > 1)
        status = pst_file_printf(writer, err, ", \"data_parallel\": %d",
                                 pst_schedule_data_parallel(schedule));
    if (status == PST_OK && pst_schedule_is_extended(schedule))
        status = pst_file_printf(writer, err,
                                 ", \"extended\": true, \"weight_policy\": \"%s\"",
                                 policy_names[pst_schedule_weight_policy(schedule)]);
    if (status == PST_OK)
        status = pst_file_printf(writer, err, "}\n");
    if (status == PST_OK)
        *out = writer;
    else
        pst_file_discard(writer);
    return status;
}

pst_status pst__csv_meta_begin(const pst_env *env, const pst_schedule *schedule,
                               const char *path, pst__csv_meta *meta, pst_error *err)
{
    const int kind = pst__os_kind(path, NULL);
    *meta = (pst__csv_meta){.env = env};
    /* A redirected standard output is a file too, but not one of this name. */
    if (pst__os_is_device(path) || (kind != ABSENT && kind != REGULAR))
        return PST_OK;
    meta->path = meta_path(env, path);
    if (meta->path == NULL)
        return pst_error_no_memory(err, path, strlen(path));
    pst_status status = PST_OK;
    if (pst_schedule_replicas(schedule) > 1 || pst_schedule_slices(schedule) > 1 ||
        pst_schedule_is_extended(schedule))
        status = write_meta(env, schedule, meta->path, &meta->writer, err);
    if (status != PST_OK)
        pst__csv_meta_discard(meta);
    return status;
}

pst_status pst__csv_meta_commit(pst__csv_meta *meta, pst_error *err)
{
    pst_status status = PST_OK;
    if (meta->writer != NULL)
        status = pst_file_commit(meta->writer, err);
    else if (meta->path != NULL && pst__os_kind(meta->path, NULL) == REGULAR &&
             pst__os_unlink(meta->path) != 0)
        status = pst_error_set(err, PST_EIO,
                               "%s: it cannot be removed, and is of another list",
                               meta->path);
    meta->writer = NULL;
    pst__csv_meta_discard(meta);
    return status;
}

void pst__csv_meta_discard(pst__csv_meta *meta)
{
    pst_file_discard(meta->writer);
    pst_release(meta->env, meta->path);
    *meta = (pst__csv_meta){.env = meta->env};
}
