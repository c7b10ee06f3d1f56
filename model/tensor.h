/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor.h - a named array of floats somewhere in memory. */
#ifndef PENSTOCK_TENSOR_H
#define PENSTOCK_TENSOR_H

#include <stddef.h>

#include <penstock/api.h>

PST_BEGIN_DECLS

#define PST_TENSOR_NAME_SIZE 96
#define PST_TENSOR_MAX_DIMS  4

/* Row-major float32. Owns nothing: `data` is borrowed from whoever says so. */
typedef struct pst_tensor {
    char name[PST_TENSOR_NAME_SIZE]; /* Hugging Face's name: "h.0.ln_1.weight"  */
    int dims;                        /* 0: a scalar                             */
    size_t shape[PST_TENSOR_MAX_DIMS];
    size_t count; /* product of shape; 1 for a scalar        */
    float *data;  /* may be NULL where only the shape is meant */
} pst_tensor;

PST_END_DECLS

#endif
