/* SPDX-License-Identifier: BSD-3-Clause */
/* folder.c - the system calls on folders, and nothing else. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* renameat2 */
#endif
#include "model/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 + 256 }; /* of a folder, and of a name in it              */

static pst_status refused(pst_error *err, const char *path)
{
    const pst_status status = errno == ENOMEM ? PST_ENOMEM : PST_EIO;
    return pst_error_set(err, status, "%s: %s", path, strerror(errno));
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Cut the last part of `path` off: "a/b" and "a/b/" become "a", "a" becomes "". */
static void cut_last_part(char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    path[n] = '\0';
}

/* The folder that holds `path`, in `above`, which has room for it. */
static const char *folder_above(const char *path, char *above)
{
    strcpy(above, path);
    cut_last_part(above);
    return above[0] != '\0' ? above : ".";
}

static pst_status make_one(const char *path, char *above, pst_error *err)
{
    if (mkdir(path, 0777) != 0) {
        int reason = errno;
        if (reason == EEXIST && is_folder(path))
            return PST_OK;
        errno = reason == EEXIST ? ENOTDIR : reason;
        return refused(err, path);
    }
    return pst__folder_sync(folder_above(path, above), err);
}

pst_status pst__folder_make(const pst_env *env, const char *path, pst_error *err)
{
    if (is_folder(path))
        return PST_OK;

    size_t room = strlen(path) + 1;
    char *part = pst_allocate(env, 2 * room);
    if (part == NULL)
        return pst_error_no_memory(err, "a path", 2 * room);
    char *above = part + room;

    pst_status status = PST_OK;
    for (size_t i = 1; i < room && status == PST_OK; i++) {
        bool ends_here = path[i] == '\0' || path[i] == '/';
        if (!ends_here || path[i - 1] == '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (!is_folder(part))
            status = make_one(part, above, err);
    }
    pst_release(env, part);
    return status;
}

pst_status pst__folder_sync(const char *path, pst_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return refused(err, path);
    int failed;
    do
        failed = fsync(fd) != 0;
    while (failed && errno == EINTR);
    /* Some file systems (NFS, FUSE) know no fsync of a folder and say EINVAL. */
    pst_status status = failed && errno != EINVAL ? refused(err, path) : PST_OK;
    close(fd);
    return status;
}

pst_status pst__folder_rename(const char *from, const char *to, pst_error *err)
{
    if (rename(from, to) != 0)
        return pst_error_set(err, PST_EIO, "%s: cannot be renamed to %s: %s", from, to,
                             strerror(errno));
    return PST_OK;
}

/* Where renameat2() is not to be had the place is empty for a moment. */
static int exchange(const char *from, const char *to)
{
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
#endif
    char aside[PATH_SIZE];
    if ((size_t)snprintf(aside, sizeof aside, "%s.old", to) >= sizeof aside) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return rename(to, aside) == 0 && rename(from, to) == 0 && rename(aside, from) == 0
               ? 0
               : -1;
}

pst_status pst__folder_exchange(const char *from, const char *to, pst_error *err)
{
    if (exchange(from, to) != 0)
        return pst_error_set(err, PST_EIO, "%s: cannot take the place of %s: %s", from,
                             to, strerror(errno));
    return PST_OK;
}

pst_status pst__folder_remove_file(const char *folder, const char *name, pst_error *err)
{
    char file[PATH_SIZE];
    if ((size_t)snprintf(file, sizeof file, "%s/%s", folder, name) >= sizeof file)
        errno = ENAMETOOLONG;
    else if (unlink(file) == 0 || errno == ENOENT)
        return PST_OK;
    return refused(err, file);
}

static pst_status remove_file(void *user, const char *name, pst_error *err)
{
    return pst__folder_remove_file(user, name, err);
}

pst_status pst__folder_remove(const char *path, pst_error *err)
{
    const pst_status status = pst__folder_list(path, remove_file, (void *)path, err);
    return status == PST_OK ? pst__folder_remove_empty(path, err) : status;
}

pst_status pst__folder_remove_empty(const char *path, pst_error *err)
{
    return rmdir(path) == 0 ? PST_OK : refused(err, path);
}

pst_status pst__folder_mark(const char *path, const char *start, char *name,
                            size_t size, pst_error *err)
{
    char file[PATH_SIZE];
    const int length = snprintf(file, sizeof file, "%s/%sXXXXXX", path, start);
    errno = ENAMETOOLONG;
    if ((size_t)length >= sizeof file || strlen(start) + 7 > size)
        return refused(err, path);
    const int fd = mkstemp(file);
    if (fd < 0)
        return refused(err, path);
    close(fd);
    snprintf(name, size, "%s", file + strlen(path) + 1);
    return PST_OK;
}

bool pst__folder_has(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

pst_status pst__folder_list(const char *path,
                            pst_status (*visit)(void *user, const char *name,
                                                pst_error *err),
                            void *user, pst_error *err)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return refused(err, path);

    pst_status status = PST_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            if (errno != 0)
                status = refused(err, path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        status = visit(user, entry->d_name, err);
        if (status != PST_OK)
            break;
    }
    closedir(folder);
    return status;
}
