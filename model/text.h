/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - a text file as byte tokens, cut into a training and a held-out part.
 *
 * The first part trains, the last `val_fraction` is held out. A window is
 * `context` inputs and the same `context` bytes one further on as labels.
 */
#ifndef PENSTOCK_TEXT_H
#define PENSTOCK_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>

PST_BEGIN_DECLS

typedef struct pst_text pst_text;

/*
 * Errors: PST_EIO; PST_EINVAL where a part is shorter than context + 1 bytes (the
 *         text says how many there are and how many are needed), or a byte is not
 *         below `vocabulary` (says which and where).
 */
PST_API pst_status pst_text_open(const pst_env *env, const char *path,
                                 double val_fraction, int context, int vocabulary,
                                 pst_text **out, pst_error *err);

/* Bytes in the training and the held-out part. */
PST_API size_t pst_text_train_bytes(const pst_text *text);
PST_API size_t pst_text_val_bytes(const pst_text *text);

/* The training part and then the other; the text's, until it is closed. */
PST_API const unsigned char *pst_text_bytes(const pst_text *text);

/*
 * `sequences` random windows of the training part, with replacement: window b of
 * step s depends on (seed, s, b) alone (Philox). inputs and labels: (sequences,
 * context).
 */
PST_API void pst_text_sample(const pst_text *text, uint64_t seed, int64_t step,
                             int sequences, int32_t *inputs, int32_t *labels);

/*
 * Window `index` of the held-out part, non-overlapping, in order. The last one may be
 * short: labels beyond the end are PST_IGNORED_LABEL and inputs 0. Returns its valid
 * labels, 0 past the end. Every byte but the first is a label exactly once.
 */
PST_API int pst_text_window(const pst_text *text, size_t index, int32_t *inputs,
                            int32_t *labels);

/* A label that counts for nothing. */
#define PST_IGNORED_LABEL (-100)

PST_API void pst_text_close(pst_text *text);

PST_END_DECLS

#endif
