/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.h - files read whole and files written whole or not at all.
 *
 * A writer collects into a temporary file beside its target and renames it over
 * the target in pst_file_commit(), after fsync of the file and before fsync of
 * its folder; until then, and after any error, the target is as it was. A target
 * that is not a regular file (/dev/stdout, a pipe) is written directly.
 * One thread at a time may use a writer.
 */
#ifndef PENSTOCK_FILE_H
#define PENSTOCK_FILE_H

#include <stddef.h>

#include <penstock/env.h>
#include <penstock/error.h>

PST_BEGIN_DECLS

typedef struct pst_file_writer pst_file_writer;

/* Owns: *out is the caller's until pst_file_commit() or pst_file_discard(). */
PST_API pst_status pst_file_create(const pst_env *env, const char *path,
                                   pst_file_writer **out, pst_error *err);

/* Append. The first error is kept and comes back from every later call. */
PST_API pst_status pst_file_write(pst_file_writer *writer, const void *data,
                                  size_t bytes, pst_error *err);

PST_API pst_status pst_file_printf(pst_file_writer *writer, pst_error *err,
                                   const char *format, ...) PST_PRINTF(3, 4);

/* Make the file durable under its name. Destroys the writer either way. */
PST_API pst_status pst_file_commit(pst_file_writer *writer, pst_error *err);

/* Forget what was written and destroy the writer; NULL allowed. */
PST_API void pst_file_discard(pst_file_writer *writer);

/*
 * The whole file and a zero byte behind it.
 * Owns:   *data is the caller's (pst_release).
 * Errors: PST_EIO; PST_EINVAL where it is larger than `limit` bytes (0: no limit).
 */
PST_API pst_status pst_file_read(const pst_env *env, const char *path, size_t limit,
                                 char **data, size_t *bytes, pst_error *err);

PST_END_DECLS

#endif
