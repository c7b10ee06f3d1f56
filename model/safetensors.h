/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * safetensors.h - the safetensors file format, read strictly and written whole.
 *
 * Layout: u64 little-endian N; N bytes of JSON; data. Data starts at byte 8 + N,
 * which need not be aligned (it is not in the public gpt2 file), so everything is
 * read by copy. Source: safetensors' README and its reference reader's checks.
 */
#ifndef PENSTOCK_SAFETENSORS_H
#define PENSTOCK_SAFETENSORS_H

#include <stddef.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/tensor.h>

PST_BEGIN_DECLS

typedef struct pst_safetensors pst_safetensors;

/* One string of "__metadata__". */
typedef struct pst_metadata {
    const char *key;
    const char *value;
} pst_metadata;

/*
 * Open and check the header whole: sizes, overlaps, holes, trailing bytes,
 * duplicate names, overflow. A Git LFS pointer is named as one.
 * Errors: PST_EIO, PST_EFORMAT, PST_ENOMEM.
 */
PST_API pst_status pst_safetensors_open(const pst_env *env, const char *path,
                                        pst_safetensors **out, pst_error *err);

/* Number of tensors, in the order of their data. */
PST_API size_t pst_safetensors_count(const pst_safetensors *file);

/* Name and shape of tensor `index`; its data is NULL. *dtype (may be NULL) is "F32" and
 * so on. */
PST_API const pst_tensor *pst_safetensors_tensor(const pst_safetensors *file,
                                                 size_t index, const char **dtype);

/* Index of `name`, or -1. */
PST_API long pst_safetensors_find(const pst_safetensors *file, const char *name);

/* Value of a metadata key, borrowed, or NULL. */
PST_API const char *pst_safetensors_metadata(const pst_safetensors *file,
                                             const char *key);

/* Copy tensor `index` to `data` (count floats). F32, F16, BF16 and F64 are converted;
 * others are refused by name. Errors: PST_EIO, PST_EFORMAT. */
PST_API pst_status pst_safetensors_read(pst_safetensors *file, size_t index,
                                        float *data, pst_error *err);

PST_API void pst_safetensors_close(pst_safetensors *file);

/*
 * Write F32 tensors, sorted by name, header padded with spaces to a multiple of 8;
 * whole or not at all and durable (file.h). metadata may be NULL.
 */
PST_API pst_status pst_safetensors_write(const pst_env *env, const char *path,
                                         const pst_tensor *tensors, size_t count,
                                         const pst_metadata *metadata,
                                         size_t metadata_count, pst_error *err);

PST_END_DECLS

#endif
