/* SPDX-License-Identifier: BSD-3-Clause */
/* file.c - files read whole and written whole or not at all. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <penstock/file.h>

#include "sched/os.h"

enum { BUFFER_SIZE = 1 << 16, LINE_SIZE = 4096 };

struct pst_file_writer {
    const pst_env *env; /* NULL, or &env_copy                                  */
    pst_env env_copy;
    char *target;
    char *temporary; /* NULL where the target is written directly             */
    int file;
    size_t buffered;
    pst_error failure; /* the first one                                        */
    char buffer[BUFFER_SIZE];
};

static pst_status system_error(pst_error *err, const char *path)
{
    return pst_error_set(err, PST_EIO, "%s: %s", path, strerror(errno));
}

static void destroy(pst_file_writer *writer)
{
    const pst_env env = writer->env_copy;
    int has_env = writer->env != NULL;
    pst_release(writer->env, writer->target);
    pst_release(writer->env, writer->temporary);
    pst_release(has_env ? &env : NULL, writer);
}

static pst_status open_temporary(pst_file_writer *writer, unsigned mode, pst_error *err)
{
    size_t size = strlen(writer->target) + 48;
    writer->temporary = pst_allocate(writer->env, size);
    if (writer->temporary == NULL)
        return pst_error_no_memory(err, "a file name", size);
    /* A name that a killed process left behind must not stop this one. */
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(writer->temporary, size, "%s.%ld-%d.tmp", writer->target,
                 pst__os_process_id(), attempt);
        writer->file = pst__os_create(writer->temporary, mode);
        if (writer->file >= 0)
            return PST_OK;
        if (errno != EEXIST)
            break;
    }
    /* The user knows the target's name, not ours. */
    return system_error(err, writer->target);
}

static pst_status open_directly(pst_file_writer *writer, pst_error *err)
{
    writer->file = strcmp(writer->target, "/dev/stdout") == 0
                       ? pst__os_open_stdout()
                       : pst__os_open_write(writer->target);
    return writer->file < 0 ? system_error(err, writer->target) : PST_OK;
}

/* What is written: where the path is a link, the file that it leads to, so that the
 * link stays; but /dev/stdout may lead to a regular file that is not ours to replace.
 */
static pst_status set_target(pst_file_writer *writer, const char *path, pst_error *err)
{
    char *real = pst__os_is_device(path) ? NULL : pst__os_real_path(path);
    writer->target = pst_copy_text(writer->env, real != NULL ? real : path);
    pst__os_free(real);
    return writer->target != NULL
               ? PST_OK
               : pst_error_no_memory(err, "a file name", strlen(path) + 1);
}

pst_status pst_file_create(const pst_env *env, const char *path, pst_file_writer **out,
                           pst_error *err)
{
    pst_status status;
    pst_file_writer *writer = pst_allocate(env, sizeof *writer);
    if (writer == NULL)
        return pst_error_no_memory(err, "a file writer", sizeof *writer);
    if (env != NULL) {
        writer->env_copy = *env;
        writer->env = &writer->env_copy;
    }
    writer->file = -1;
    if ((status = set_target(writer, path, err)))
        goto failed;
    unsigned mode = 0666;
    int kind = pst__os_kind(writer->target, &mode);
    if (kind == 2)
        status = pst_error_set(err, PST_EIO, "%s: is a folder; name a file", path);
    else if (kind == 3 || pst__os_is_device(path))
        status = open_directly(writer, err);
    else
        status = open_temporary(writer, mode, err);
    if (status != PST_OK)
        goto failed;
    *out = writer;
    return PST_OK;
failed:
    destroy(writer);
    return status;
}

static pst_status write_all(pst_file_writer *writer, const char *data, size_t bytes)
{
    while (bytes > 0) {
        long done = pst__os_write(writer->file, data, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            if (done == 0)
                errno = ENOSPC;
            return system_error(&writer->failure, writer->target);
        }
        data += done;
        bytes -= (size_t)done;
    }
    return PST_OK;
}

static pst_status flush(pst_file_writer *writer)
{
    size_t bytes = writer->buffered;
    writer->buffered = 0;
    return write_all(writer, writer->buffer, bytes);
}

/* Hand the kept failure to the caller. */
static pst_status fail(const pst_file_writer *writer, pst_error *err)
{
    if (err != NULL && err->status == PST_OK)
        *err = writer->failure;
    return writer->failure.status;
}

pst_status pst_file_write(pst_file_writer *writer, const void *data, size_t bytes,
                          pst_error *err)
{
    if (writer->failure.status != PST_OK)
        return fail(writer, err);
    if (bytes > BUFFER_SIZE - writer->buffered && flush(writer) != PST_OK)
        return fail(writer, err);
    if (bytes >= BUFFER_SIZE)
        return write_all(writer, data, bytes) == PST_OK ? PST_OK : fail(writer, err);
    memcpy(writer->buffer + writer->buffered, data, bytes);
    writer->buffered += bytes;
    return PST_OK;
}

pst_status pst_file_printf(pst_file_writer *writer, pst_error *err, const char *format,
                           ...)
{
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof line)
        return pst_file_write(writer, line, (size_t)length, err);
    if (length < 0)
        return pst_error_set(err, PST_EINVAL, "%s: a text could not be formatted",
                             writer->target);
    char *longer = pst_allocate(writer->env, (size_t)length + 1);
    if (longer == NULL)
        return pst_error_no_memory(err, "a line", (unsigned long long)length + 1);
    va_start(args, format);
    vsnprintf(longer, (size_t)length + 1, format, args);
    va_end(args);
    pst_status status = pst_file_write(writer, longer, (size_t)length, err);
    pst_release(writer->env, longer);
    return status;
}

/* Make the renamed name durable: fsync of the folder that holds it. */
static pst_status sync_folder(pst_file_writer *writer)
{
    char *slash = strrchr(writer->temporary, '/');
    const char *folder = ".";
    if (slash != NULL) {
        slash[slash == writer->temporary] = 0; /* "/" stays "/" */
        folder = writer->temporary;
    }
    int file = pst__os_open_folder(folder);
    if (file < 0)
        return system_error(&writer->failure, folder);
    /* Some file systems cannot sync a folder and say so; that is as durable as they
     * get. */
    if (pst__os_fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP)
        system_error(&writer->failure, folder);
    pst__os_close(file);
    return writer->failure.status;
}

pst_status pst_file_commit(pst_file_writer *writer, pst_error *err)
{
    pst_status status = writer->failure.status;
    if (status == PST_OK)
        status = flush(writer);
    if (status == PST_OK && writer->temporary != NULL &&
        pst__os_fsync(writer->file) != 0)
        status = system_error(&writer->failure, writer->target);
    if (pst__os_close(writer->file) != 0 && status == PST_OK)
        status = system_error(&writer->failure, writer->target);
    writer->file = -1;
    if (status == PST_OK && writer->temporary != NULL) {
        if (pst__os_rename(writer->temporary, writer->target) != 0) {
            status = system_error(&writer->failure, writer->target);
        } else {
            status = sync_folder(writer);
            pst_release(writer->env, writer->temporary);
            writer->temporary = NULL;
        }
    }
    if (status != PST_OK)
        fail(writer, err);
    pst_file_discard(writer);
    return status;
}

void pst_file_discard(pst_file_writer *writer)
{
    if (writer == NULL)
        return;
    if (writer->file >= 0)
        pst__os_close(writer->file);
    if (writer->temporary != NULL)
        pst__os_unlink(writer->temporary);
    destroy(writer);
}

/* Read on until the end; the size that the system gave may be wrong (pipes, /proc). */
static pst_status read_all(const pst_env *env, const char *path, int file, size_t limit,
                           char **data, size_t *bytes, pst_error *err)
{
    size_t room = BUFFER_SIZE, used = 0;
    char *text = pst_allocate(env, room);
    if (text == NULL)
        return pst_error_no_memory(err, path, room);
    for (;;) {
        if (used + 1 == room) {
            char *larger =
                room <= SIZE_MAX / 2 ? pst_grow(env, text, used, room * 2) : NULL;
            if (larger == NULL) {
                pst_release(env, text);
                return pst_error_no_memory(err, path, room);
            }
            text = larger;
            room *= 2;
        }
        long done = pst__os_read(file, text + used, room - used - 1);
        if (done == 0)
            break;
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            pst_release(env, text);
            return system_error(err, path);
        }
        used += (size_t)done;
        if (limit != 0 && used > limit) {
            pst_release(env, text);
            return pst_error_set(err, PST_EINVAL,
                                 "%s: larger than the %zu bytes allowed", path, limit);
        }
    }
    text[used] = 0;
    *data = text;
    *bytes = used;
    return PST_OK;
}

pst_status pst_file_read(const pst_env *env, const char *path, size_t limit,
                         char **data, size_t *bytes, pst_error *err)
{
    int file = pst__os_open_read(path);
    if (file < 0)
        return system_error(err, path);
    pst_status status = read_all(env, path, file, limit, data, bytes, err);
    pst__os_close(file);
    return status;
}
