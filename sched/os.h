/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os.h - the system calls that sched/ makes, each behind one name.
 *
 * Nothing but the calls themselves, so that a test can put its own in their place
 * (the linker's --wrap) and see what an error does. Errors are in errno.
 */
#ifndef PST_SCHED_OS_H
#define PST_SCHED_OS_H

#include <stddef.h>

/* Memory at a multiple of `alignment`, not zeroed. */
void *pst__os_allocate(size_t bytes, size_t alignment);
void pst__os_free(void *memory);

/* A new file for writing with the given permissions; refuses one that exists. */
int pst__os_create(const char *path, unsigned mode);
/* An existing file, to read or to write into. */
int pst__os_open_read(const char *path);
int pst__os_open_write(const char *path);
/* Standard output once more, at the place where it is. */
int pst__os_open_stdout(void);
int pst__os_open_folder(const char *path);
/* Bytes moved, or -1. Interrupted calls are not repeated here. */
long pst__os_write(int file, const void *data, size_t bytes);
long pst__os_read(int file, void *data, size_t bytes);
int pst__os_fsync(int file);
int pst__os_close(int file);
int pst__os_rename(const char *from, const char *to);
int pst__os_unlink(const char *path);

/* What stands at a path: 0 nothing, 1 a regular file, 2 a folder, 3 anything else.
 * Links are followed. *mode (may be NULL) gets a regular file's permissions. */
int pst__os_kind(const char *path, unsigned *mode);

/* Is it the system's name for what has another, as /dev/stdout has, or for a device? By
 * the name alone; /dev/shm is a folder for files like any other. */
int pst__os_is_device(const char *path);

/* The path without links, malloc's memory (pst__os_free); NULL: nothing is there. */
char *pst__os_real_path(const char *path);

/* A number that no other live process has. */
long pst__os_process_id(void);

#endif
