/* SPDX-License-Identifier: BSD-3-Clause */
/* blas.c - the only file that knows OpenBLAS. */
#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <penstock/blas.h>

#include "model/kernels.h"
#include "model/sgemm.h"

void pst__sgemm(int transpose_a, int transpose_b, size_t m, size_t n, size_t k,
                float alpha, const float *a, size_t lda, const float *b, size_t ldb,
                float beta, float *c, size_t ldc)
{
    assert(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX &&
           ldb <= INT_MAX && ldc <= INT_MAX && "gpt.c bounds every dimension");
    if (m == 0 || n == 0)
        return;
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha,
                a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

void pst__sgemm_warm(const float *zeros)
{
    enum { ROWS = 64, SIDE = 384 };
    _Static_assert(SIDE * SIDE == PST_SGEMM_WARM, "the larger factor");
    /* Smaller ones than 10^6 multiplications use no buffer. */
    _Static_assert(ROWS * SIDE * SIDE > 1000000, "a large product");
    float product[ROWS * SIDE];
    pst__sgemm(0, 0, ROWS, SIDE, SIDE, 1, zeros, SIDE, zeros, SIDE, 0, product, SIDE);
}

static pst_blas_threading threading(void)
{
    switch (openblas_get_parallel()) {
    case OPENBLAS_THREAD:
        return PST_BLAS_PTHREAD;
    case OPENBLAS_OPENMP:
        return PST_BLAS_OPENMP;
    default:
        return PST_BLAS_SERIAL;
    }
}

void pst_blas_describe(pst_blas_info *info)
{
    *info = (pst_blas_info){.threading = threading(),
                            .threads = openblas_get_num_threads(),
                            .config = openblas_get_config(),
                            .core = openblas_get_corename(),
                            .kernels = pst__kernels()->level};
}

/*
 * How many threads may be in a product at once: each takes a buffer out of a fixed
 * table, and OpenBLAS ends the program where there is none left. The table has two for
 * each thread of the build, at least 50, and from 0.3.21 on (that is what was tried; it
 * may be earlier) another of 512 comes to it. INT_MAX: this build does not say.
 */
static int most_callers(void)
{
    const char *config = openblas_get_config();
    const char *at = strstr(config, "MAX_THREADS=");
    int threads, major = 0, minor = 0, patch = 0;
    if (!at || sscanf(at, "MAX_THREADS=%d", &threads) != 1 || threads > 1000000)
        return INT_MAX;
    sscanf(config, "OpenBLAS %d.%d.%d", &major, &minor, &patch);
    const int table = threads > 25 ? 2 * threads : 50;
    return table + (10000 * major + 100 * minor + patch >= 321 ? 512 : 0);
}

pst_status pst_blas_check(const pst_env *env, int workers, pst_error *err)
{
    if (threading() == PST_BLAS_SERIAL && workers > 1)
        return pst_error_set(
            err, PST_ESYSTEM,
            "this OpenBLAS is the serial build, which gives wrong "
            "products when %d workers call it at once; install and "
            "select libopenblas0-pthread (update-alternatives --config "
            "libopenblas.so.0-x86_64-linux-gnu), or use one stage",
            workers);
    if (workers > most_callers())
        return pst_error_set(err, PST_ESYSTEM,
                             "%d workers call OpenBLAS at once; this build has buffers "
                             "for %d, and ends the program where there are more (%s)",
                             workers, most_callers(), openblas_get_config());
    if (openblas_get_num_threads() > 1)
        pst_log(
            env, PST_LOG_WARNING,
            "OpenBLAS has started %d threads that will idle: each product runs on its "
            "caller's thread; set OPENBLAS_NUM_THREADS=1 before the program starts",
            openblas_get_num_threads());
    return PST_OK;
}

int pst_blas_acquire(void)
{
    int found = openblas_get_num_threads();
    if (found != 1)
        openblas_set_num_threads(1);
    return found;
}

void pst_blas_release(int acquired)
{
    if (acquired != openblas_get_num_threads())
        openblas_set_num_threads(acquired);
}
