/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manifest.h - manifest.json: what a checkpoint holds, and the checksums of it.
 *
 *     {"penstock_checkpoint": 1, "sha256": "..." of "content" as text,
 *      "content": {"step": 100, "settings": {"width": "128", ...},
 *                  "weights": {NAME: "sha256", ...}, "optimizer": {...}}}
 *
 * Of several processes "content" also has "files", {"weights": {NAME: FILE, ...},
 * "optimizer": {...}}, and "writers", {FILE: "process 1 on node-b", ...}.
 */
#ifndef PST_MODEL_MANIFEST_H
#define PST_MODEL_MANIFEST_H

#include <penstock/checkpoint.h>

#include "model/digest.h"

typedef struct pst__manifest pst__manifest;

/* A state that has been written, tensor by tensor: weights, then optimizer. Borrows. */
typedef struct pst__written {
    const pst_checkpoint *state;
    const char (*digests)[PST_DIGEST_TEXT_SIZE];
    const int *owners; /* process whose file has it                              */
} pst__written;

/* Errors: PST_EIO, PST_ENOMEM. */
pst_status pst__manifest_write(const pst_env *env, const char *path,
                               const pst__written *written, pst_error *err);

/* Hugging Face's index of weights in several files. Errors: as above. */
pst_status pst__index_write(const pst_env *env, const char *path,
                            const pst__written *written, pst_error *err);

/* What pst_file_read() had from `path`.
 * Errors: PST_ENOMEM; PST_EFORMAT where it is not a manifest as it was written. */
pst_status pst__manifest_parse(const pst_env *env, const char *path, const char *text,
                               size_t bytes, pst__manifest **out, pst_error *err);

/* The checksum that it has of itself. Borrowed, as is all text below. */
const char *pst__manifest_sum(const pst__manifest *manifest);

int64_t pst__manifest_step(const pst__manifest *manifest);

/* Errors: PST_EINVAL: a setting that is missing or differs, with both values. Other
 * copies side by side and other shares of them are one line each in the log. */
pst_status pst__manifest_compare(const pst__manifest *manifest, const char *dir,
                                 const pst_checkpoint *state, pst_error *err);

/* The checksum of tensor `name` in "weights" or "optimizer"; NULL: not listed. */
const char *pst__manifest_digest(const pst__manifest *manifest, const char *part,
                                 const char *name);

/* The file with that tensor, which stands beside the manifest; NULL: not listed. */
const char *pst__manifest_file(const pst__manifest *manifest, const char *part,
                               const char *name);

/* Who wrote that file. */
const char *pst__manifest_writer(const pst__manifest *manifest, const char *file);

void pst__manifest_close(pst__manifest *manifest); /* NULL allowed */

#endif
