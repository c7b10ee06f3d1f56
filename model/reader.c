/* SPDX-License-Identifier: BSD-3-Clause */
/* reader.c - reading by position, with short reads and interruptions put together. */
#define _FILE_OFFSET_BITS 64
#include "model/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pst__reader {
    pst_env env;
    char *path;
    int fd;
    uint64_t bytes;
};

static pst_status refused(pst_error *err, const char *path)
{
    return pst_error_set(err, PST_EIO, "%s: %s", path, strerror(errno));
}

static pst_status open_file(pst__reader *reader, pst_error *err)
{
    struct stat status;

    /* O_NONBLOCK: opening a pipe must not wait for its writer. */
    reader->fd = open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader->fd < 0 || fstat(reader->fd, &status) != 0)
        return refused(err, reader->path);
    if (S_ISDIR(status.st_mode))
        return pst_error_set(err, PST_EIO, "%s: this is a folder, not a file",
                             reader->path);
    if (!S_ISREG(status.st_mode))
        return pst_error_set(err, PST_EIO, "%s: this is not a regular file",
                             reader->path);
    reader->bytes = (uint64_t)status.st_size;
    return PST_OK;
}

pst_status pst__reader_open(const pst_env *env, const char *path, pst__reader **out,
                            pst_error *err)
{
    pst_status status = PST_OK;
    pst__reader *reader = pst_allocate(env, sizeof *reader);
    if (reader == NULL)
        return pst_error_no_memory(err, path, sizeof *reader);
    if (env != NULL)
        reader->env = *env;
    reader->fd = -1;
    reader->path = pst_copy_text(env, path);
    if (reader->path == NULL)
        status = pst_error_no_memory(err, path, strlen(path) + 1);
    else
        status = open_file(reader, err);

    if (status != PST_OK)
        pst__reader_close(reader);
    else
        *out = reader;
    return status;
}

const char *pst__reader_path(const pst__reader *reader)
{
    return reader->path;
}

uint64_t pst__reader_bytes(const pst__reader *reader)
{
    return reader->bytes;
}

pst_status pst__reader_read(pst__reader *reader, uint64_t at, void *data, size_t bytes,
                            pst_error *err)
{
    /* Linux moves at most 2^31 - 4096 bytes a call anyway. */
    const size_t most = (size_t)1 << 30;
    unsigned char *to = data;

    while (bytes > 0) {
        ssize_t got = pread(reader->fd, to, bytes < most ? bytes : most, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refused(err, reader->path);
        if (got == 0)
            return pst_error_set(err, PST_EFORMAT,
                                 "%s: the file ends at byte %llu, %zu bytes too early",
                                 reader->path, (unsigned long long)at, bytes);
        to += got;
        at += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return PST_OK;
}

void pst__reader_close(pst__reader *reader)
{
    if (reader == NULL)
        return;
    pst_env env = reader->env;
    if (reader->fd >= 0)
        close(reader->fd);
    pst_release(&env, reader->path);
    pst_release(&env, reader);
}
