/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spread.h - products and kernels over the cores of a team.
 *
 * As sgemm.h and kernels.h have them, cut as cut.h says. A team may be NULL.
 */
#ifndef PST_MODEL_SPREAD_H
#define PST_MODEL_SPREAD_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/team.h>

#include "model/kernels.h"

/* c (m,n) = op(a) (m,k) op(b) (k,n) + beta c, along m or n, whichever has more parts */
void pst__spread_sgemm(pst_team *team, int transpose_a, int transpose_b, size_t m,
                       size_t n, size_t k, const float *a, size_t lda, const float *b,
                       size_t ldb, float beta, float *c, size_t ldc);

void pst__spread_layernorm(pst_team *team, float *y, float *mean, float *rstd,
                           const float *x, const float *gain, const float *bias,
                           size_t n, size_t c, float epsilon);
void pst__spread_gelu(pst_team *team, float *y, const float *x, size_t count,
                      int tanh_form);
void pst__spread_gelu_backward(pst_team *team, float *dx, const float *dy,
                               const float *x, size_t count, int tanh_form);
void pst__spread_residual(pst_team *team, float *y, const float *x, const float *a,
                          const float *bias, size_t n, size_t c);
void pst__spread_bias(pst_team *team, float *y, const float *bias, size_t n, size_t c);
/* Over whole sequences, of which x has `count / per_sequence`. */
void pst__spread_dropout(pst_team *team, float *y, const float *x, size_t count,
                         size_t per_sequence, const pst_dropout *dropout);
/* *loss is SET to the sum of the parts' sums. */
void pst__spread_cross_entropy(pst_team *team, float *logits, const int32_t *labels,
                               size_t n, size_t v, float scale, int gradient,
                               double *loss);

#endif
