/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.h - what the library takes from its caller: memory and an ear.
 *
 * Every function that makes an object takes a `const pst_env *`, which may be
 * NULL: malloc's memory and no log. The struct is copied; the object keeps using
 * its functions until it is destroyed. A member left NULL has its default.
 */
#ifndef PENSTOCK_ENV_H
#define PENSTOCK_ENV_H

#include <stddef.h>

#include <penstock/api.h>

PST_BEGIN_DECLS

/* How much there is of each: error and warning are rare, info comes per run,
 * debug per object, trace per action. */
typedef enum pst_log_level {
    PST_LOG_ERROR,
    PST_LOG_WARNING,
    PST_LOG_INFO,
    PST_LOG_DEBUG,
    PST_LOG_TRACE
} pst_log_level;

typedef struct pst_env {
    /* `bytes` of memory at a multiple of `alignment` (a power of two), or NULL.
     * Called by the thread that makes an object, never while a pipeline runs. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    /* Give back what `allocate` returned; never NULL. Set both or neither. */
    void (*release)(void *user, void *memory);
    /* One line without a newline; may come from any thread, one at a time is
     * not promised. NULL: silence. */
    void (*log)(void *user, pst_log_level level, const char *text);
    void *user;
} pst_env;

/* Zeroed memory at a multiple of 64 bytes, or NULL. bytes = 0 gives a unique pointer.
 */
PST_API void *pst_allocate(const pst_env *env, size_t bytes);

/* As pst_allocate for count * size bytes; NULL too where that overflows. */
PST_API void *pst_allocate_array(const pst_env *env, size_t count, size_t size);

/* A larger copy (the rest zeroed); the old block is released on success only. */
PST_API void *pst_grow(const pst_env *env, void *memory, size_t old_bytes,
                       size_t new_bytes);

/* A copy of `text`, or NULL. */
PST_API char *pst_copy_text(const pst_env *env, const char *text);

/* NULL allowed. */
PST_API void pst_release(const pst_env *env, void *memory);

PST_API void pst_log(const pst_env *env, pst_log_level level, const char *format, ...)
    PST_PRINTF(3, 4);

PST_END_DECLS

#endif
