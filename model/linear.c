/* SPDX-License-Identifier: BSD-3-Clause */
/* linear.c - y = x w + b, and its two backward halves. */
#include "model/layers.h"
#include "model/sgemm.h"

/* Floats of a weight gradient that are made at once: 1 MiB, so that adding them to dw
 * reads what the cache still holds. */
enum { BLOCK = 256 * 1024 };

void pst__linear_forward(float *y, const float *x, const float *w, const float *bias,
                         size_t n, size_t in, size_t out, pst_layout layout)
{
    int transposed = layout == PST_OUT_IN;
    pst__sgemm(PST_NO_TRANSPOSE, transposed, n, out, in, 1, x, in, w,
               transposed ? in : out, 0, y, out);
    if (bias != NULL)
        pst__kernels()->bias_add(y, bias, n, out);
}

void pst__linear_backward_input(float *dx, const float *dy, const float *w, size_t n,
                                size_t in, size_t out, pst_layout layout, int add)
{
    int transposed = layout == PST_IN_OUT;
    pst__sgemm(PST_NO_TRANSPOSE, transposed, n, in, out, 1, dy, out, w,
               transposed ? out : in, add ? 1 : 0, dx, in);
}

/* Rows of a (rows, columns) gradient in one block; at least one. */
static size_t block_rows(size_t rows, size_t columns)
{
    size_t most = columns < BLOCK ? BLOCK / columns : 1;
    return rows < most ? rows : most;
}

size_t pst__linear_scratch(size_t in, size_t out)
{
    size_t a = block_rows(in, out) * out, b = block_rows(out, in) * in;
    return a > b ? a : b;
}

void pst__linear_backward_weight(float *dw, const float *x, const float *dy, size_t n,
                                 size_t in, size_t out, pst_layout layout,
                                 float *scratch)
{
    /* dw (rows, columns) is left^T right, with the layout saying which is which. */
    const float *left = layout == PST_IN_OUT ? x : dy;
    const float *right = layout == PST_IN_OUT ? dy : x;
    size_t rows = layout == PST_IN_OUT ? in : out;
    size_t columns = layout == PST_IN_OUT ? out : in;
    size_t step = block_rows(rows, columns);
    const pst_kernels *kernels = pst__kernels();
    for (size_t row = 0; row < rows; row += step) {
        size_t count = rows - row < step ? rows - row : step;
        pst__sgemm(PST_TRANSPOSE, PST_NO_TRANSPOSE, count, columns, n, 1, left + row,
                   rows, right, columns, 0, scratch, columns);
        kernels->add(dw + row * columns, scratch, count * columns);
    }
}
