/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - windows of a text's bytes. */
#include <penstock/text.h>

#include <penstock/file.h>

#include "model/philox.h"

struct pst_text {
    pst_env env;
    unsigned char *bytes;
    size_t train; /* bytes of the first part                                   */
    size_t val;
    size_t context;
};

static pst_status check_part(const char *path, const char *part, size_t bytes,
                             size_t context, pst_error *err)
{
    if (bytes > context)
        return PST_OK;
    return pst_error_set(err, PST_EINVAL,
                         "%s: the %s part has %zu bytes; a context of %zu needs %zu. A "
                         "longer text or a smaller context would work",
                         path, part, bytes, context, context + 1);
}

static pst_status check_bytes(const pst_text *text, const char *path, int vocabulary,
                              pst_error *err)
{
    size_t line = 1;
    for (size_t i = 0; i < text->train + text->val; i++) {
        const int byte = text->bytes[i];
        if (byte >= vocabulary)
            return pst_error_set(err, PST_EINVAL,
                                 "%s: byte %zu, in line %zu, is %d; a vocabulary of %d "
                                 "has tokens 0 to %d, and one of 256 takes every byte",
                                 path, i, line, byte, vocabulary, vocabulary - 1);
        line += byte == '\n';
    }
    return PST_OK;
}

static pst_status read_parts(pst_text *text, const char *path, double val_fraction,
                             int vocabulary, pst_error *err)
{
    char *data;
    size_t bytes;
    pst_status status = pst_file_read(&text->env, path, 0, &data, &bytes, err);
    if (status != PST_OK)
        return status;
    text->bytes = (unsigned char *)data;
    if (bytes == 0)
        return pst_error_set(
            err, PST_EINVAL,
            "%s: the file is empty; a text of more than %zu bytes would "
            "work",
            path, text->context);
    text->train = (size_t)((double)bytes * (1.0 - val_fraction));
    text->val = bytes - text->train;
    status = check_part(path, "training", text->train, text->context, err);
    if (status == PST_OK && val_fraction > 0)
        status = check_part(path, "held-out", text->val, text->context, err);
    return status == PST_OK ? check_bytes(text, path, vocabulary, err) : status;
}

pst_status pst_text_open(const pst_env *env, const char *path, double val_fraction,
                         int context, int vocabulary, pst_text **out, pst_error *err)
{
    if (!(val_fraction >= 0 && val_fraction < 1))
        return pst_error_set(err, PST_EINVAL,
                             "a held-out part of %g; it must be 0 .. below 1",
                             val_fraction);
    pst_text *text = pst_allocate(env, sizeof *text);
    if (!text)
        return pst_error_no_memory(err, "a text", sizeof *text);
    if (env)
        text->env = *env;
    text->context = (size_t)context;
    const pst_status status = read_parts(text, path, val_fraction, vocabulary, err);
    if (status == PST_OK)
        *out = text;
    else
        pst_text_close(text);
    return status;
}

size_t pst_text_train_bytes(const pst_text *text)
{
    return text->train;
}

size_t pst_text_val_bytes(const pst_text *text)
{
    return text->val;
}

const unsigned char *pst_text_bytes(const pst_text *text)
{
    return text->bytes;
}

/* A number in 0 .. count - 1. */
static size_t draw(uint64_t seed, int64_t step, uint32_t sequence, size_t count)
{
    const uint64_t s = (uint64_t)step;
    const uint32_t counter[4] = {(uint32_t)s, (uint32_t)(s >> 32), sequence,
                                 PST_RANDOM_DATA};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t bits[4];
    pst__philox(counter, key, bits);
    /* So many bits more than count has that the remainder is as good as even. */
    return (size_t)(((uint64_t)bits[0] << 32 | bits[1]) % count);
}

void pst_text_sample(const pst_text *text, uint64_t seed, int64_t step, int sequences,
                     int32_t *inputs, int32_t *labels)
{
    for (int b = 0; b < sequences; b++) {
        const size_t starts = text->train - text->context;
        const unsigned char *window =
            text->bytes + draw(seed, step, (uint32_t)b, starts);
        for (size_t i = 0; i < text->context; i++) {
            *inputs++ = window[i];
            *labels++ = window[i + 1];
        }
    }
}

int pst_text_window(const pst_text *text, size_t index, int32_t *inputs,
                    int32_t *labels)
{
    const size_t labels_in_all = text->val > 0 ? text->val - 1 : 0;
    const size_t first = index * text->context;
    if (index > labels_in_all / text->context || first >= labels_in_all)
        return 0;
    const unsigned char *window = text->bytes + text->train + first;
    const size_t left = labels_in_all - first;
    const size_t valid = left < text->context ? left : text->context;
    for (size_t i = 0; i < text->context; i++) {
        inputs[i] = i < valid ? window[i] : 0;
        labels[i] = i < valid ? window[i + 1] : PST_IGNORED_LABEL;
    }
    return (int)valid;
}

void pst_text_close(pst_text *text)
{
    if (!text)
        return;
    const pst_env env = text->env;
    pst_release(&env, text->bytes);
    pst_release(&env, text);
}
