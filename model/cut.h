/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut.h - where work is cut into parts for a team of cores.
 *
 * By its shape alone, so that every size of team computes the same: OpenBLAS gives
 * other bits for a product in parts than for the whole.
 */
#ifndef PST_MODEL_CUT_H
#define PST_MODEL_CUT_H

#include <stddef.h>

enum { PST_MOST_PARTS = 64 };

/* First of the `count` elements in part `index` of `parts`: a multiple of 16, which is
 * what the kernels do at once. */
static inline size_t pst__cut_start(size_t count, size_t parts, size_t index)
{
    return index == parts ? count : count * index / parts / 16 * 16;
}

/* A power of two, at most PST_MOST_PARTS, that leaves every part `least` on average; at
 * least 1. */
static inline size_t pst__cut_parts(size_t count, size_t least)
{
    size_t parts = 1;
    while (2 * parts <= PST_MOST_PARTS && count / (2 * parts) >= least)
        parts *= 2;
    return parts;
}

/*
 * Parts of a product (m,n,k) along its m rows; 1 where they would be small. Rows below
 * PST_CUT_ROWS cost more packing than they save, and OpenBLAS has other kernels for
 * products of m n k up to 10^6.
 */
enum { PST_CUT_ROWS = 192, PST_CUT_VOLUME = 1 << 22 };

static inline size_t pst__cut_product(size_t m, size_t n, size_t k)
{
    size_t parts = pst__cut_parts(m, PST_CUT_ROWS);
    while (parts > 1 && m / parts * n * k < PST_CUT_VOLUME)
        parts /= 2;
    return parts;
}

#endif
