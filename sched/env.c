/* SPDX-License-Identifier: BSD-3-Clause */
/* env.c - memory and log lines, from the caller's functions or the defaults. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <penstock/env.h>

#include "sched/os.h"

/* A cache line, and the widest vector. */
enum { ALIGNMENT = 64, LINE_SIZE = 1024 };

void *pst_allocate(const pst_env *env, size_t bytes)
{
    if (bytes == 0)
        bytes = 1;
    void *memory = env != NULL && env->allocate != NULL
                       ? env->allocate(env->user, bytes, ALIGNMENT)
                       : pst__os_allocate(bytes, ALIGNMENT);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

void *pst_allocate_array(const pst_env *env, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return pst_allocate(env, count * size);
}

void *pst_grow(const pst_env *env, void *memory, size_t old_bytes, size_t new_bytes)
{
    void *larger = pst_allocate(env, new_bytes);
    if (larger == NULL)
        return NULL;
    if (memory != NULL)
        memcpy(larger, memory, old_bytes < new_bytes ? old_bytes : new_bytes);
    pst_release(env, memory);
    return larger;
}

char *pst_copy_text(const pst_env *env, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = pst_allocate(env, bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

void pst_release(const pst_env *env, void *memory)
{
    if (memory == NULL)
        return;
    if (env != NULL && env->release != NULL)
        env->release(env->user, memory);
    else
        pst__os_free(memory);
}

void pst_log(const pst_env *env, pst_log_level level, const char *format, ...)
{
    if (env == NULL || env->log == NULL)
        return;
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    env->log(env->user, level, line);
}
