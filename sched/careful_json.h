/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * careful_json.h - JSON read whole and written whole.
 *
 * Where memory is out, jansson 2.14 leaves characters out of what it reads, and words
 * out of what json_dumps() writes, without a word about it.
 */
#ifndef PST_SCHED_CAREFUL_JSON_H
#define PST_SCHED_CAREFUL_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/env.h>

struct json_t;
struct json_error_t;

/* NULL where it is not JSON, which *why tells, or where memory was out. */
struct json_t *pst__json_load(const char *text, size_t bytes, struct json_error_t *why,
                              bool *no_memory);

/* `value`, or NULL where something in it `failed`, as where memory was out for it;
 * jansson passes that on. */
struct json_t *pst__json_checked(struct json_t *value, int failed);

/* As text in env's memory; NULL where memory was out, or `root` is NULL. */
char *pst__json_dump(const pst_env *env, const struct json_t *root, size_t flags);

#endif
