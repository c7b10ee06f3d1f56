/* SPDX-License-Identifier: BSD-3-Clause */
/* carve.h - parts of one buffer, counted and then handed out by the same code. */
#ifndef PST_MODEL_CARVE_H
#define PST_MODEL_CARVE_H

#include <stddef.h>

/* base NULL: only count. */
typedef struct pst__carve {
    float *base;
    size_t used; /* floats                                                     */
} pst__carve;

/* The next `count` floats, at a multiple of 16; NULL while counting. */
static inline float *pst__carve_take(pst__carve *carve, size_t count)
{
    float *part = carve->base ? carve->base + carve->used : NULL;
    carve->used += (count + 15) / 16 * 16;
    return part;
}

#endif
