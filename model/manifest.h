/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manifest.h - manifest.json: what a checkpoint holds, and the checksums of it.
 *
 *     {"penstock_checkpoint": 1, "sha256": "..." of "content" as text,
 *      "content": {"step": 100, "settings": {"width": "128", ...},
 *                  "weights": {NAME: "sha256", ...}, "optimizer": {...}}}
 */
#ifndef PST_MODEL_MANIFEST_H
#define PST_MODEL_MANIFEST_H

#include <penstock/checkpoint.h>

#include "model/digest.h"

typedef struct pst__manifest pst__manifest;

/* Errors: PST_EIO, PST_ENOMEM. */
pst_status pst__manifest_write(const pst_env *env, const char *path,
                               const pst_checkpoint *state, pst_error *err);

/* Errors: PST_EIO; PST_EFORMAT where it is not a manifest as it was written. */
pst_status pst__manifest_read(const pst_env *env, const char *path, pst__manifest **out,
                              pst_error *err);

int64_t pst__manifest_step(const pst__manifest *manifest);

/* Errors: PST_EINVAL: a setting that is missing or differs, with both values. Other
 * copies side by side and other shares of them are one line each in the log. */
pst_status pst__manifest_compare(const pst__manifest *manifest, const char *dir,
                                 const pst_checkpoint *state, pst_error *err);

/* The checksum of tensor `name` in "weights" or "optimizer"; NULL: not listed.
 * Borrowed. */
const char *pst__manifest_digest(const pst__manifest *manifest, const char *part,
                                 const char *name);

void pst__manifest_close(pst__manifest *manifest); /* NULL allowed */

#endif
