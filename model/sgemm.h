/* SPDX-License-Identifier: BSD-3-Clause */
/* sgemm.h - the one matrix product that everything uses. */
#ifndef PST_MODEL_SGEMM_H
#define PST_MODEL_SGEMM_H

#include <stddef.h>

enum { PST_NO_TRANSPOSE = 0, PST_TRANSPOSE = 1 };

/*
 * c (m,n) = alpha op(a) (m,k) op(b) (k,n) + beta c, row-major; lda, ldb, ldc are
 * lengths of rows as stored. beta = 0 does not read c. k = 0 scales c. Thread-safe.
 */
void pst__sgemm(int transpose_a, int transpose_b, size_t m, size_t n, size_t k,
                float alpha, const float *a, size_t lda, const float *b, size_t ldb,
                float beta, float *c, size_t ldc);

/*
 * A product for its side effect: OpenBLAS makes a buffer for each caller at once, in
 * its first large one, and the caller's CPU decides which memory that is on. So a
 * worker calls this when it has taken its place. `zeros` has PST_SGEMM_WARM floats.
 */
enum { PST_SGEMM_WARM = 384 * 384 };
void pst__sgemm_warm(const float *zeros);

#endif
