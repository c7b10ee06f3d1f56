/* SPDX-License-Identifier: BSD-3-Clause */
/* digest.h - SHA-256 of tensors, so that two runs can be compared by one line. */
#ifndef PST_MODEL_DIGEST_H
#define PST_MODEL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "model/tensor.h"

#define PST_DIGEST_TEXT_SIZE 65 /* 64 hex digits and a zero */

/* A digest in the making, in its caller's memory: begin, add, end. */
typedef struct pst__digest {
    uint64_t state[32]; /* of the library below, whose size digest.c checks    */
} pst__digest;

void pst__digest_begin(pst__digest *digest);
void pst__digest_add(pst__digest *digest, const void *data, size_t bytes);
/* Lower-case hex into text; returns text. */
char *pst__digest_end(pst__digest *digest, char text[PST_DIGEST_TEXT_SIZE]);

/* SHA-256 of `bytes` at `data` as lower-case hex into text; returns text. */
char *pst__digest_bytes(const void *data, size_t bytes,
                        char text[PST_DIGEST_TEXT_SIZE]);

/* SHA-256 of `count` floats as they stand in a file: little-endian. */
char *pst__digest_floats(const float *data, size_t count,
                         char text[PST_DIGEST_TEXT_SIZE]);

/* A tensor's name with its zero, number of dimensions, shape and data, little-endian:
 * no two lists of tensors look alike. The data is read at `data`. */
void pst__digest_tensor(pst__digest *digest, const pst_tensor *tensor,
                        const float *data);

/* SHA-256 over each tensor's name, shape and little-endian data, in the given order. */
char *pst__digest_tensors(const pst_tensor *tensors, size_t count,
                          char text[PST_DIGEST_TEXT_SIZE]);

#endif
