/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blas.h - OpenBLAS as Penstock uses it: one thread a call, many callers.
 *
 * OpenBLAS has process-wide state (its thread count), so a host that uses it too
 * should know: pst_blas_acquire() sets one thread and the matching release sets
 * back what it found.
 */
#ifndef PENSTOCK_BLAS_H
#define PENSTOCK_BLAS_H

#include <penstock/env.h>
#include <penstock/error.h>

PST_BEGIN_DECLS

typedef enum pst_blas_threading {
    PST_BLAS_SERIAL, /* one thread; Debian's is not safe to call from two     */
    PST_BLAS_PTHREAD,
    PST_BLAS_OPENMP
} pst_blas_threading;

typedef struct pst_blas_info {
    pst_blas_threading threading;
    int threads;         /* a call would use now                              */
    const char *config;  /* OpenBLAS's own line, borrowed                     */
    const char *core;    /* kernels chosen for this CPU: "Zen", "SkylakeX"    */
    const char *kernels; /* level of our own kernels: "x86-64-v3", "portable" */
} pst_blas_info;

PST_API void pst_blas_describe(pst_blas_info *info);

/*
 * May `workers` threads call BLAS at once? Warns in the log where OpenBLAS has
 * started threads of its own that will idle (set OPENBLAS_NUM_THREADS=1 before
 * the program starts).
 * Errors: PST_ESYSTEM  the serial build with more than one worker: it gives wrong
 *         products then; names the package that works (libopenblas0-pthread). More
 *         workers than this OpenBLAS has buffers for.
 */
PST_API pst_status pst_blas_check(const pst_env *env, int workers, pst_error *err);

/* Set one thread a call; returns what pst_blas_release() wants back. */
PST_API int pst_blas_acquire(void);
PST_API void pst_blas_release(int acquired);

PST_END_DECLS

#endif
