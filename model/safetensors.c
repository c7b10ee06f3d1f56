/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors.c - reading: the header is taken apart and checked before any data. */
#include <penstock/safetensors.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/little_endian.h"
#include "model/reader.h"
#include "sched/careful_json.h"

/* Of the header; the format's own limit. */
enum { MOST_HEADER_BYTES = 100000000 };

typedef struct type {
    const char *name;
    unsigned bytes;
    void (*convert)(float *to, const unsigned char *from, size_t count);
} type;

static void from_f32(float *to, const unsigned char *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)pst__load_le(from + 4 * i, 4);
        memcpy(to + i, &bits, sizeof bits);
    }
}

static void from_f64(float *to, const unsigned char *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = pst__load_le(from + 8 * i, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        to[i] = (float)value;
    }
}

static void from_bf16(float *to, const unsigned char *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)pst__load_le(from + 2 * i, 2) << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

/* IEEE 754 binary16, subnormal numbers too. */
static float half_to_float(uint32_t half)
{
    const uint32_t sign = (half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        const float value = (float)fraction * (1.0f / 16777216.0f);
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void from_f16(float *to, const unsigned char *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = half_to_float((uint32_t)pst__load_le(from + 2 * i, 2));
}

static const type types[] = {
    {"F32", 4, from_f32}, {"F16", 2, from_f16}, {"BF16", 2, from_bf16},
    {"F64", 8, from_f64}, {"BOOL", 1, NULL},    {"U8", 1, NULL},
    {"I8", 1, NULL},      {"F8_E5M2", 1, NULL}, {"F8_E4M3", 1, NULL},
    {"I16", 2, NULL},     {"U16", 2, NULL},     {"I32", 4, NULL},
    {"U32", 4, NULL},     {"I64", 8, NULL},     {"U64", 8, NULL},
};

/* One tensor of the file. */
typedef struct entry {
    pst_tensor tensor;
    const type *type;
    uint64_t begin; /* in the data                                             */
    uint64_t end;
} entry;

struct pst_safetensors {
    pst_env env;
    pst__reader *reader;
    json_t *header;
    uint64_t data_at; /* in the file                                           */
    uint64_t data_bytes;
    entry *entries;
    size_t count;
};

static const char *path_of(const pst_safetensors *file)
{
    return pst__reader_path(file->reader);
}

static pst_status malformed(const pst_safetensors *file, pst_error *err,
                            const char *name, const char *what)
{
    return pst_error_set(err, PST_EFORMAT, "%s: tensor %.90s %s", path_of(file), name,
                         what);
}

static const type *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static pst_status read_shape(const pst_safetensors *file, const char *name,
                             const json_t *shape, entry *out, pst_error *err)
{
    pst_tensor *tensor = &out->tensor;
    if (!json_is_array(shape))
        return malformed(file, err, name, "has no shape");
    if (json_array_size(shape) > PST_TENSOR_MAX_DIMS)
        return malformed(file, err, name, "has more than 4 dimensions");
    tensor->dims = (int)json_array_size(shape);
    tensor->count = 1;
    for (int i = 0; i < tensor->dims; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return malformed(file, err, name,
                             "has a dimension that is not a number >= 0");
        tensor->shape[i] = (size_t)json_integer_value(size);
        if (tensor->shape[i] > 0 && tensor->count > SIZE_MAX / 8 / tensor->shape[i])
            return malformed(file, err, name, "is larger than any memory");
        tensor->count *= tensor->shape[i];
    }
    return PST_OK;
}

static pst_status read_entry(const pst_safetensors *file, const char *name,
                             const json_t *value, entry *out, pst_error *err)
{
    const char *type_name = json_string_value(json_object_get(value, "dtype"));
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (strlen(name) >= PST_TENSOR_NAME_SIZE)
        return malformed(file, err, name, "has a name that is too long");
    strcpy(out->tensor.name, name);
    if (!type_name)
        return malformed(file, err, name, "has no dtype");
    out->type = find_type(type_name);
    if (!out->type)
        return pst_error_set(err, PST_EFORMAT,
                             "%s: tensor %s has the unknown dtype %.20s", path_of(file),
                             name, type_name);
    const pst_status status =
        read_shape(file, name, json_object_get(value, "shape"), out, err);
    if (status != PST_OK)
        return status;
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return malformed(file, err, name, "has no data_offsets [begin, end]");
    out->begin = (uint64_t)json_integer_value(begin);
    out->end = (uint64_t)json_integer_value(end);
    if (out->end > file->data_bytes)
        return pst_error_set(err, PST_EFORMAT,
                             "%s: tensor %s ends at data byte %" PRIu64
                             "; the file has %" PRIu64 " of data: it is cut off",
                             path_of(file), name, out->end, file->data_bytes);
    if (out->end - out->begin != (uint64_t)out->tensor.count * out->type->bytes)
        return malformed(file, err, name, "has data of another size than its shape");
    return PST_OK;
}

static int by_begin(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Tensors follow each other without a hole, from the first byte to the last. */
static pst_status check_cover(const pst_safetensors *file, pst_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->begin != at)
            return pst_error_set(err, PST_EFORMAT,
                                 "%s: tensor %s begins at data byte %" PRIu64
                                 " where %" PRIu64 " was due: %s",
                                 path_of(file), e->tensor.name, e->begin, at,
                                 e->begin < at ? "two tensors overlap" : "a hole");
        at = e->end;
    }
    if (at != file->data_bytes)
        return pst_error_set(err, PST_EFORMAT,
                             "%s: the tensors end at data byte %" PRIu64
                             " and the file has %" PRIu64 ": bytes that belong to none",
                             path_of(file), at, file->data_bytes);
    return PST_OK;
}

static pst_status read_entries(pst_safetensors *file, pst_error *err)
{
    const char *name;
    json_t *value;
    file->entries = pst_allocate_array(&file->env, json_object_size(file->header),
                                       sizeof *file->entries);
    if (!file->entries)
        return pst_error_no_memory(err, path_of(file), 0);
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const pst_status status =
            read_entry(file, name, value, &file->entries[file->count], err);
        if (status != PST_OK)
            return status;
        file->count++;
    }
    qsort(file->entries, file->count, sizeof *file->entries, by_begin);
    return check_cover(file, err);
}

static pst_status parse_header(pst_safetensors *file, const char *text, size_t bytes,
                               pst_error *err)
{
    json_error_t why;
    bool no_memory;
    file->header = pst__json_load(text, bytes, &why, &no_memory);
    if (no_memory)
        return pst_error_no_memory(err, path_of(file), bytes);
    if (!file->header)
        return pst_error_set(err, PST_EFORMAT, "%s: the header is not JSON: %s",
                             path_of(file), why.text);
    if (!json_is_object(file->header))
        return pst_error_set(err, PST_EFORMAT, "%s: the header is not a JSON object",
                             path_of(file));
    return read_entries(file, err);
}

static pst_status not_safetensors(const pst_safetensors *file, pst_error *err)
{
    static const char pointer[] = "version https://git-lfs";
    char start[sizeof pointer - 1];
    if (pst__reader_bytes(file->reader) >= sizeof start &&
        pst__reader_read(file->reader, 0, start, sizeof start, NULL) == PST_OK &&
        memcmp(start, pointer, sizeof start) == 0)
        return pst_error_set(
            err, PST_EFORMAT,
            "%s: this is a Git LFS pointer, not the file itself; 'git lfs "
            "pull' fetches it",
            path_of(file));
    return pst_error_set(err, PST_EFORMAT,
                         "%s: this is not a safetensors file, or it is cut off: it has "
                         "%" PRIu64 " bytes",
                         path_of(file), pst__reader_bytes(file->reader));
}

static pst_status read_header(pst_safetensors *file, pst_error *err)
{
    unsigned char length[8];
    const uint64_t bytes = pst__reader_bytes(file->reader);
    if (bytes < sizeof length)
        return not_safetensors(file, err);
    pst_status status = pst__reader_read(file->reader, 0, length, sizeof length, err);
    if (status != PST_OK)
        return status;
    const uint64_t header = pst__load_le(length, 8);
    if (header < 2 || header > MOST_HEADER_BYTES || header > bytes - sizeof length)
        return not_safetensors(file, err);
    file->data_at = sizeof length + header;
    file->data_bytes = bytes - file->data_at;
    char *text = pst_allocate(&file->env, (size_t)header);
    if (!text)
        return pst_error_no_memory(err, path_of(file), header);
    status = pst__reader_read(file->reader, sizeof length, text, (size_t)header, err);
    if (status == PST_OK && text[0] != '{')
        status = not_safetensors(file, err);
    if (status == PST_OK)
        status = parse_header(file, text, (size_t)header, err);
    pst_release(&file->env, text);
    return status;
}

pst_status pst_safetensors_open(const pst_env *env, const char *path,
                                pst_safetensors **out, pst_error *err)
{
    pst_safetensors *file = pst_allocate(env, sizeof *file);
    if (!file)
        return pst_error_no_memory(err, path, sizeof *file);
    if (env)
        file->env = *env;
    pst_status status = pst__reader_open(env, path, &file->reader, err);
    if (status == PST_OK)
        status = read_header(file, err);
    if (status == PST_OK)
        *out = file;
    else
        pst_safetensors_close(file);
    return status;
}

size_t pst_safetensors_count(const pst_safetensors *file)
{
    return file->count;
}

const pst_tensor *pst_safetensors_tensor(const pst_safetensors *file, size_t index,
                                         const char **dtype)
{
    if (dtype)
        *dtype = file->entries[index].type->name;
    return &file->entries[index].tensor;
}

long pst_safetensors_find(const pst_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].tensor.name, name) == 0)
            return (long)i;
    return -1;
}

const char *pst_safetensors_metadata(const pst_safetensors *file, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(file->header, "__metadata__"), key));
}

pst_status pst_safetensors_read(pst_safetensors *file, size_t index, float *data,
                                pst_error *err)
{
    const entry *e = &file->entries[index];
    unsigned char part[8192];
    const size_t each = sizeof part / e->type->bytes;
    if (!e->type->convert)
        return pst_error_set(
            err, PST_EFORMAT,
            "%s: tensor %s is of %s; F32, F16, BF16 and F64 can be read", path_of(file),
            e->tensor.name, e->type->name);
    for (size_t done = 0; done < e->tensor.count; done += each) {
        const size_t left = e->tensor.count - done;
        const size_t count = left < each ? left : each;
        const pst_status status = pst__reader_read(
            file->reader, file->data_at + e->begin + done * e->type->bytes, part,
            count * e->type->bytes, err);
        if (status != PST_OK)
            return status;
        e->type->convert(data + done, part, count);
    }
    return PST_OK;
}

void pst_safetensors_close(pst_safetensors *file)
{
    if (!file)
        return;
    const pst_env env = file->env;
    json_decref(file->header);
    pst__reader_close(file->reader);
    pst_release(&env, file->entries);
    pst_release(&env, file);
}
