/* SPDX-License-Identifier: BSD-3-Clause */
/* careful_json.c - see careful_json.h. */
#include "sched/careful_json.h"

#include <errno.h>
#include <jansson.h>

typedef struct source {
    const char *next;
    const char *end;
    bool no_memory;
} source;

/* One byte a call: whether jansson could keep the one before stands in errno, until it
 * has read the number or the word that the byte belongs to. */
static size_t give_byte(void *buffer, size_t room, void *user)
{
    source *from = user;
    from->no_memory |= errno == ENOMEM;
    if (from->no_memory || from->next == from->end || room == 0)
        return 0;
    *(char *)buffer = *from->next++;
    return 1;
}

json_t *pst__json_load(const char *text, size_t bytes, json_error_t *why,
                       bool *no_memory)
{
    source from = {.next = text, .end = text + bytes};
    errno = 0;
    json_t *root = json_load_callback(give_byte, &from, JSON_REJECT_DUPLICATES, why);
    *no_memory = from.no_memory || errno == ENOMEM;
    if (!*no_memory)
        return root;
    json_decref(root);
    return NULL;
}

json_t *pst__json_checked(json_t *value, int failed)
{
    if (failed == 0)
        return value;
    json_decref(value);
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
