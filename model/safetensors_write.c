/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors_write.c - writing F32 tensors: the header first, then the data. */
#include <penstock/safetensors.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/file.h>

#include "model/checkpoint_folder.h"
#include "model/little_endian.h"
#include "sched/careful_json.h"

static int by_name(const void *a, const void *b)
{
    const pst_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* NULL: no memory. */
static json_t *describe(const pst_tensor *tensor, uint64_t begin)
{
    json_t *shape = json_array();
    int failed = 0;
    for (int i = 0; i < tensor->dims; i++)
        failed |=
            json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape",
                     pst__json_checked(shape, failed), "data_offsets",
                     (json_int_t)begin,
                     (json_int_t)(begin + tensor->count * sizeof(float)));
}

/* The header as text; NULL: no memory. */
static char *make_header(const pst_env *env, const pst_tensor *const *sorted,
                         size_t count, const pst_metadata *metadata,
                         size_t metadata_count)
{
    json_t *header = json_object();
    uint64_t at = 0;
    int failed = 0;
    if (metadata_count > 0) {
        json_t *strings = json_object();
        for (size_t i = 0; i < metadata_count; i++)
            failed |= json_object_set_new(strings, metadata[i].key,
                                          json_string(metadata[i].value));
        failed |= json_object_set_new(header, "__metadata__", strings);
    }
    for (size_t i = 0; i < count; i++) {
        failed |= json_object_set_new(header, sorted[i]->name, describe(sorted[i], at));
        at += sorted[i]->count * sizeof(float);
    }
    char *text = failed ? NULL : pst__json_dump(env, header, JSON_COMPACT);
    json_decref(header);
    return text;
}

static pst_status write_header(pst_file_writer *writer, const char *text,
                               pst_error *err)
{
    static const char spaces[8] = "       ";
    unsigned char length[8];
    const size_t bytes = strlen(text), padding = (8 - bytes % 8) % 8;
    pst__store_le(length, bytes + padding, 8);
    pst_status status = pst_file_write(writer, length, sizeof length, err);
    if (status == PST_OK)
        status = pst_file_write(writer, text, bytes, err);
    if (status == PST_OK)
        status = pst_file_write(writer, spaces, padding, err);
    return status;
}

static pst_status write_data(pst_file_writer *writer, const pst_tensor *tensor,
                             pst_error *err)
{
    unsigned char part[8192];
    const size_t each = sizeof part / 4;
    for (size_t done = 0; done < tensor->count; done += each) {
        const size_t left = tensor->count - done;
        const size_t count = left < each ? left : each;
        pst__store_floats(part, tensor->data + done, count);
        const pst_status status = pst_file_write(writer, part, 4 * count, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

static pst_status write_file(const pst_env *env, const char *path, const char *header,
                             const pst_tensor *const *sorted, size_t count,
                             pst_error *err)
{
    pst_file_writer *writer;
    pst_status status = pst_file_create(env, path, &writer, err);
    if (status != PST_OK)
        return status;
    status = write_header(writer, header, err);
    for (size_t i = 0; status == PST_OK && i < count; i++) {
        if (i == count / 2)
            pst__checkpoint_point(env, "shard-half");
        status = write_data(writer, sorted[i], err);
    }
    if (status == PST_OK)
        return pst_file_commit(writer, err);
    pst_file_discard(writer);
    return status;
}

pst_status pst_safetensors_write(const pst_env *env, const char *path,
                                 const pst_tensor *tensors, size_t count,
                                 const pst_metadata *metadata, size_t metadata_count,
                                 pst_error *err)
{
    const pst_tensor **sorted = pst_allocate_array(env, count, sizeof *sorted);
    if (!sorted)
        return pst_error_no_memory(err, path, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, count, sizeof *sorted, by_name);
    pst_status status;
    char *header = make_header(env, sorted, count, metadata, metadata_count);
    if (header)
        status = write_file(env, path, header, sorted, count, err);
    else
        status = pst_error_no_memory(err, path, 0);
    pst_release(env, header);
    pst_release(env, sorted);
    return status;
}
