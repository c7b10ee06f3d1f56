/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reader.h - parts of a regular file, by position.
 *
 * For files too large to be held twice; pst_file_read() is for all others.
 */
#ifndef PST_MODEL_READER_H
#define PST_MODEL_READER_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>

typedef struct pst__reader pst__reader;

/* Errors: PST_EIO (folders, pipes and devices are refused too), PST_ENOMEM. */
pst_status pst__reader_open(const pst_env *env, const char *path, pst__reader **out,
                            pst_error *err);

const char *pst__reader_path(const pst__reader *reader);

/* Bytes in the file when it was opened. */
uint64_t pst__reader_bytes(const pst__reader *reader);

/* Errors: PST_EIO; PST_EFORMAT where the file ends before `at + bytes`. */
pst_status pst__reader_read(pst__reader *reader, uint64_t at, void *data, size_t bytes,
                            pst_error *err);

void pst__reader_close(pst__reader *reader); /* NULL allowed */

#endif
