/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * folder.h - folders: made, listed, renamed, made durable, removed.
 *
 * Every error is PST_EIO with the path and the system's reason.
 */
#ifndef PST_MODEL_FOLDER_H
#define PST_MODEL_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/env.h>
#include <penstock/error.h>

/* Make `path` and the folders above it that are missing, each durable in the one
 * above. A folder that is there already is fine. */
pst_status pst__folder_make(const pst_env *env, const char *path, pst_error *err);

/* What stands under its names in `path` survives a loss of power. */
pst_status pst__folder_sync(const char *path, pst_error *err);

/* `to` must not exist, or be an empty folder. */
pst_status pst__folder_rename(const char *from, const char *to, pst_error *err);

/* `from` takes the place of the folder `to`, which is at `from` afterwards; at once
 * where the file system can do that. */
pst_status pst__folder_exchange(const char *from, const char *to, pst_error *err);

/* Remove the folder and the files in it. A folder within it is left alone, which makes
 * the removal fail. It needs next to no memory, as it comes after what failed. */
pst_status pst__folder_remove(const char *path, pst_error *err);

/* A folder with nothing in it. */
pst_status pst__folder_remove_empty(const char *path, pst_error *err);

/* That one file of it; one that is not there is fine. */
pst_status pst__folder_remove_file(const char *folder, const char *name,
                                   pst_error *err);

/* Make an empty file in the folder, called `start` and six random letters, which goes
 * into name[size]. */
pst_status pst__folder_mark(const char *path, const char *start, char *name,
                            size_t size, pst_error *err);

/* Is there a file or folder of this path? False also where one may not look. */
bool pst__folder_has(const char *path);

/*
 * Call `visit` with the name of each entry of `path` but "." and "..", in no order,
 * until it returns an error, which is then handed on.
 */
pst_status pst__folder_list(const char *path,
                            pst_status (*visit)(void *user, const char *name,
                                                pst_error *err),
                            void *user, pst_error *err);

#endif
