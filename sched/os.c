/* SPDX-License-Identifier: BSD-3-Clause */
/* os.c - the system calls that sched/ makes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sched/os.h"

void *pst__os_allocate(size_t bytes, size_t alignment)
{
    void *memory;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

void pst__os_free(void *memory)
{
    free(memory);
}

int pst__os_create(const char *path, unsigned mode)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
}

int pst__os_open_read(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC);
}

int pst__os_open_write(const char *path)
{
    return open(path, O_WRONLY | O_CLOEXEC);
}

int pst__os_open_stdout(void)
{
    return dup(STDOUT_FILENO);
}

int pst__os_open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

long pst__os_write(int file, const void *data, size_t bytes)
{
    return (long)write(file, data, bytes);
}

long pst__os_read(int file, void *data, size_t bytes)
{
    return (long)read(file, data, bytes);
}

int pst__os_fsync(int file)
{
    return fsync(file);
}

int pst__os_close(int file)
{
    return close(file);
}

int pst__os_rename(const char *from, const char *to)
{
    return rename(from, to);
}

int pst__os_unlink(const char *path)
{
    return unlink(path);
}

int pst__os_kind(const char *path, unsigned *mode)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return 0;
    if (mode != NULL)
        *mode = (unsigned)about.st_mode & 0777u;
    return S_ISREG(about.st_mode) ? 1 : S_ISDIR(about.st_mode) ? 2 : 3;
}

int pst__os_is_device(const char *path)
{
    return (strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0) ||
           strncmp(path, "/proc/", 6) == 0;
}

char *pst__os_real_path(const char *path)
{
    return realpath(path, NULL);
}

long pst__os_process_id(void)
{
    return (long)getpid();
}
