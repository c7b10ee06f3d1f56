/* SPDX-License-Identifier: BSD-3-Clause */
/* linear.c - y = x w + b, and its two backward halves. */
#include "model/cut.h"
#include "model/layers.h"
#include "model/sgemm.h"
#include "model/spread.h"

/* Floats of a weight gradient that are made at once: 1 MiB, so that adding them to dw
 * reads what the cache still holds. */
enum { BLOCK = 256 * 1024 };

void pst__linear_forward(pst_team *team, float *y, const float *x, const float *w,
                         const float *bias, size_t n, size_t in, size_t out,
                         pst_layout layout)
{
    int transposed = layout == PST_OUT_IN;
    pst__spread_sgemm(team, PST_NO_TRANSPOSE, transposed, n, out, in, x, in, w,
                      transposed ? in : out, 0, y, out);
    if (bias != NULL)
        pst__spread_bias(team, y, bias, n, out);
}

void pst__linear_backward_input(pst_team *team, float *dx, const float *dy,
                                const float *w, size_t n, size_t in, size_t out,
                                pst_layout layout, int add)
{
    int transposed = layout == PST_IN_OUT;
    pst__spread_sgemm(team, PST_NO_TRANSPOSE, transposed, n, in, out, dy, out, w,
                      transposed ? out : in, add ? 1 : 0, dx, in);
}

/* Blocks of rows of a (rows, columns) gradient that BLOCK has room for. */
static size_t fewest_blocks(size_t rows, size_t columns)
{
    const size_t most = columns < BLOCK ? BLOCK / columns : 1;
    return (rows + most - 1) / most;
}

/* Floats of the largest block of one member, at a multiple of 16. */
static size_t block_floats(size_t rows, size_t columns)
{
    const size_t blocks = fewest_blocks(rows, columns);
    const size_t most = blocks > 1 ? rows / blocks + 16 : rows;
    return ((most < rows ? most : rows) * columns + 15) / 16 * 16;
}

size_t pst__linear_scratch(size_t in, size_t out, size_t members)
{
    const size_t a = block_floats(in, out), b = block_floats(out, in);
    return members * (a > b ? a : b);
}

/* dw (rows, columns) += left^T right, over n tokens. */
typedef struct weight_gradient {
    float *dw;
    const float *left, *right;
    size_t n, rows, columns;
    size_t blocks;
    float *scratch; /* [members][block_floats()]                                */
} weight_gradient;

static void run_block(void *user, int block, int member)
{
    const weight_gradient *g = user;
    const size_t row = pst__cut_start(g->rows, g->blocks, (size_t)block);
    const size_t count = pst__cut_start(g->rows, g->blocks, (size_t)block + 1) - row;
    float *own = g->scratch + (size_t)member * block_floats(g->rows, g->columns);
    pst__sgemm(PST_TRANSPOSE, PST_NO_TRANSPOSE, count, g->columns, g->n, 1,
               g->left + row, g->rows, g->right, g->columns, 0, own, g->columns);
    pst__kernels()->add(g->dw + row * g->columns, own, count * g->columns);
}

void pst__linear_backward_weight(pst_team *team, float *dw, const float *x,
                                 const float *dy, size_t n, size_t in, size_t out,
                                 pst_layout layout, float *scratch)
{
    const int in_out = layout == PST_IN_OUT;
    weight_gradient g = {.dw = dw,
                         .left = in_out ? x : dy,
                         .right = in_out ? dy : x,
                         .n = n,
                         .rows = in_out ? in : out,
                         .columns = in_out ? out : in,
                         .scratch = scratch};
    const size_t fewest = fewest_blocks(g.rows, g.columns);
    g.blocks = pst__cut_product(g.rows, g.columns, n);
    while (g.blocks < fewest)
        g.blocks *= 2;
    pst_team_run(team, (int)g.blocks, run_block, &g);
}
