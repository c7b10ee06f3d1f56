/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels_dispatch.c - which level of kernels.c this CPU can run. */
#include "model/kernels.h"

#if PST_X86_LEVELS

extern const pst_kernels pst__kernels_v2, pst__kernels_v3, pst__kernels_v4;
extern const pst_kernels pst__kernels_portable;

const pst_kernels *pst__kernels(void)
{
    /* The levels' names are not known to every compiler; these features stand for them.
     */
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512cd"))
        return &pst__kernels_v4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return &pst__kernels_v3;
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        return &pst__kernels_v2;
    return &pst__kernels_portable;
}

#else

extern const pst_kernels pst__kernels_portable;

const pst_kernels *pst__kernels(void)
{
    return &pst__kernels_portable;
}

#endif
