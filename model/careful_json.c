/* SPDX-License-Identifier: BSD-3-Clause */
/* careful_json.c - see careful_json.h. */
#include "model/careful_json.h"

#include <errno.h>
#include <jansson.h>

json_t *pst__json_load(const char *text, size_t bytes, json_error_t *why,
                       bool *no_memory)
{
    errno = 0;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, why);
    *no_memory = errno == ENOMEM;
    if (!*no_memory)
        return root;
    json_decref(root);
    return NULL;
}

char *pst__json_dump(const pst_env *env, const json_t *root, size_t flags)
{
    const size_t bytes = json_dumpb(root, NULL, 0, flags);
    char *text = bytes > 0 ? pst_allocate(env, bytes + 1) : NULL;
    if (text != NULL && json_dumpb(root, text, bytes, flags) == bytes)
        return text;
    pst_release(env, text);
    return NULL;
}
