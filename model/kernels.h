/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h - the loops that are not matrix products, compiled for several CPUs.
 *
 * kernels.c is compiled once a level (x86-64-v2, -v3, -v4; "portable" elsewhere) and
 * pst__kernels() picks a table by what this CPU has. Sums run in a fixed order within
 * one level. All arrays are float32, row-major; n counts rows (tokens), c columns.
 * Nothing allocates. exp, tanh and erf are our own polynomials, so bits do not depend
 * on the C library.
 */
#ifndef PST_MODEL_KERNELS_H
#define PST_MODEL_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Which elements a dropout drops; see philox.h. rate 0: none. */
typedef struct pst_dropout {
    float rate;
    uint32_t key[2]; /* seed                                                  */
    uint32_t step;
    uint32_t sequence; /* first sequence of the array, counted in the batch    */
    uint32_t place;    /* layer * 4 + which dropout of it; below 2^24          */
    uint32_t element;  /* index of the array's first element in its sequence   */
} pst_dropout;

typedef struct pst_kernels {
    const char *level;

    /* y (n,c) = layernorm(x (n,c)) * gain (c) + bias (c, or NULL); saves mean, rstd
     * (n). */
    void (*layernorm_forward)(float *y, float *mean, float *rstd, const float *x,
                              const float *gain, const float *bias, size_t n, size_t c,
                              float epsilon);
    /* dx (n,c) = residual (n,c, or NULL) + gradient through the norm of dy (n,c);
     * dgain, dbias (c; dbias may be NULL) are SET to this array's sums. */
    void (*layernorm_backward)(float *dx, float *dgain, float *dbias,
                               const float *residual, const float *dy, const float *x,
                               const float *mean, const float *rstd, const float *gain,
                               size_t n, size_t c);

    /* y = gelu(x), count elements; exact (erf) or tanh form. */
    void (*gelu_forward)(float *y, const float *x, size_t count, int tanh_form);
    /* dx = dy * gelu'(x). dx may be dy. */
    void (*gelu_backward)(float *dx, const float *dy, const float *x, size_t count,
                          int tanh_form);

    /* y (n,c) = x (n,c) + a (n,c) + bias (c, or NULL). y may be x or a. */
    void (*residual_add)(float *y, const float *x, const float *a, const float *bias,
                         size_t n, size_t c);
    /* y (n,c) += bias (c). */
    void (*bias_add)(float *y, const float *bias, size_t n, size_t c);
    /* sum (c) SET to the column sums of x (n,c). */
    void (*column_sum)(float *sum, const float *x, size_t n, size_t c);
    /* y += x, count elements. */
    void (*add)(float *y, const float *x, size_t count);

    /* `scores` holds rows first .. first + rows - 1 of a t x t matrix, `columns` >=
     * first + rows of them, leading dimension `stride`; row r sees columns 0..r, others
     * are set to 0. In place scores -> softmax of scale * scores; lse (rows) = log of
     * the row's sum of exponentials, written. */
    void (*causal_softmax)(float *scores, float *lse, size_t first, size_t rows,
                           size_t columns, size_t stride, float scale);
    /* The same probabilities again from scores and a saved lse, within rounding. */
    void (*causal_probabilities)(float *scores, const float *lse, size_t first,
                                 size_t rows, size_t columns, size_t stride,
                                 float scale);
    /* dscores = scale * p * (dp - delta[row]) for columns 0..row, else 0; in place of
     * dp. */
    void (*causal_softmax_backward)(float *dp, const float *p, const float *delta,
                                    size_t first, size_t rows, size_t columns,
                                    size_t stride, float scale);
    /* dot (n) of rows of a and b, leading dimensions lda, ldb, c columns. */
    void (*row_dot)(float *dot, const float *a, size_t lda, const float *b, size_t ldb,
                    size_t n, size_t c);

    /* In place logits (n,v) -> scale * (softmax - onehot(label)); a row whose label is
     * negative becomes 0 and adds nothing. Adds the rows' losses to *loss in order.
     * With gradient = 0 the logits are left as they are and only the loss is summed. */
    void (*cross_entropy)(float *logits, const int32_t *labels, size_t n, size_t v,
                          float scale, int gradient, double *loss);

    /* y = dropped-out x (scaled by 1/(1-rate)); element e of sequence s, `per_sequence`
     * elements each. Used forward (x) and backward (dy) alike. y may be x. */
    void (*dropout)(float *y, const float *x, size_t count, size_t per_sequence,
                    const pst_dropout *dropout);

    /* AdamW on count elements. rate, decay = rate * weight_decay; c1 = 1/(1-beta1^t),
     * c2 = 1/(1-beta2^t); g is multiplied by `clip` first. */
    void (*adamw)(float *w, const float *g, float *m, float *v, size_t count,
                  float clip, float rate, float decay, float beta1, float beta2,
                  float c1, float c2, float epsilon);
    /* Sum of squares in double, in one fixed order. */
    double (*sum_squares)(const float *x, size_t count);
} pst_kernels;

/* The table for this CPU; constant. */
const pst_kernels *pst__kernels(void);

#endif
