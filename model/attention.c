/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attention.c - causal attention, one sequence and head at a time.
 *
 * Long sequences go in blocks of rows, each over the columns that it sees, which saves
 * half of the work; the blocks follow from t alone, so bits do not depend on anything
 * else. Probabilities are made again in backward from the saved log-sum-exp.
 */
#include <math.h>
#include <string.h>

#include "model/layers.h"
#include "model/sgemm.h"

enum { WHOLE_UP_TO = 128, BLOCK_ROWS = 64 };

static size_t block_rows(size_t t)
{
    return t <= WHOLE_UP_TO ? t : BLOCK_ROWS;
}

/* Probabilities, their gradients, dropped probabilities; one delta a row. */
size_t pst__attention_scratch(size_t t, size_t c, size_t h)
{
    (void)c;
    (void)h;
    return (3 * t + 1) * block_rows(t);
}

/* One head of one sequence, and the rows of it that are at work. */
typedef struct head {
    const float *q, *k, *v; /* (t, d) each, rows 3c apart                      */
    size_t t, c, d;
    size_t index;       /* of the head                                     */
    size_t first, rows; /* the block                                       */
    size_t seen;        /* columns that its last row sees                  */
    float scale;
    pst_dropout dropout; /* rate 0: none                                    */
} head;

static head head_of(const float *qkv, size_t t, size_t c, size_t h, size_t index,
                    const pst_dropout *dropout, size_t sequence)
{
    size_t d = c / h;
    head a = {.q = qkv + index * d,
              .k = qkv + c + index * d,
              .v = qkv + 2 * c + index * d,
              .t = t,
              .c = c,
              .d = d,
              .index = index,
              .scale = 1.0f / sqrtf((float)d)};
    if (dropout != NULL)
        a.dropout = *dropout;
    a.dropout.sequence += (uint32_t)sequence;
    return a;
}

/* The block that begins at row `first`; false behind the last. */
static int take_block(head *a, size_t first)
{
    size_t step = block_rows(a->t);
    a->first = first;
    a->rows = first + step < a->t ? step : a->t - first;
    a->seen = first + a->rows;
    return first < a->t;
}

/* scores (rows, seen) = q k^T of the block */
static void block_scores(const head *a, float *scores)
{
    size_t ld = 3 * a->c;
    pst__sgemm(PST_NO_TRANSPOSE, PST_TRANSPOSE, a->rows, a->seen, a->d, 1,
               a->q + a->first * ld, ld, a->k, ld, 0, scores, a->seen);
}

/* y = dropped-out x on the block's probabilities or their gradients; y may be x. */
static void block_dropout(const head *a, float *y, const float *x)
{
    pst_dropout d = a->dropout;
    for (size_t row = 0; row < a->rows; row++) {
        size_t seen = a->first + row + 1;
        d.element = (uint32_t)((a->index * a->t + a->first + row) * a->t);
        pst__kernels()->dropout(y + row * a->seen, x + row * a->seen, seen, seen, &d);
        memset(y + row * a->seen + seen, 0, (a->seen - seen) * sizeof *y);
    }
}

void pst__attention_forward(float *y, float *lse, const float *qkv, size_t b, size_t t,
                            size_t c, size_t h, const pst_dropout *dropout,
                            float *scratch)
{
    const pst_kernels *kernels = pst__kernels();
    for (size_t i = 0; i < b; i++) {
        for (size_t index = 0; index < h; index++) {
            head a = head_of(qkv + i * t * 3 * c, t, c, h, index, dropout, i);
            float *out = y + i * t * c + index * a.d, *sums = lse + (i * h + index) * t;
            for (size_t first = 0; take_block(&a, first); first += a.rows) {
                block_scores(&a, scratch);
                kernels->causal_softmax(scratch, sums + first, first, a.rows, a.seen,
                                        a.seen, a.scale);
                if (a.dropout.rate > 0)
                    block_dropout(&a, scratch, scratch);
                pst__sgemm(PST_NO_TRANSPOSE, PST_NO_TRANSPOSE, a.rows, a.d, a.seen, 1,
                           scratch, a.seen, a.v, 3 * c, 0, out + first * c, c);
            }
        }
    }
}

/* Gradients of one block: sets its rows of dq, adds to the rows of dk and dv it sees.
 */
static void block_backward(const head *a, float *dqkv, const float *dy, const float *y,
                           const float *lse, float *scratch)
{
    const pst_kernels *kernels = pst__kernels();
    size_t ld = 3 * a->c, area = a->rows * a->seen;
    float *p = scratch, *dp = p + area, *delta = dp + area, *dropped = delta + a->rows;
    const float *dy_rows = dy + a->first * a->c;
    float *dq = dqkv + a->first * ld, *dk = dqkv + a->c, *dv = dqkv + 2 * a->c;

    block_scores(a, p);
    kernels->causal_probabilities(p, lse + a->first, a->first, a->rows, a->seen,
                                  a->seen, a->scale);
    kernels->row_dot(delta, dy_rows, a->c, y + a->first * a->c, a->c, a->rows, a->d);
    pst__sgemm(PST_NO_TRANSPOSE, PST_TRANSPOSE, a->rows, a->seen, a->d, 1, dy_rows,
               a->c, a->v, ld, 0, dp, a->seen);
    const float *used = p; /* what forward multiplied v by */
    if (a->dropout.rate > 0) {
        block_dropout(a, dp, dp);
        block_dropout(a, dropped, p);
        used = dropped;
    }
    pst__sgemm(PST_TRANSPOSE, PST_NO_TRANSPOSE, a->seen, a->d, a->rows, 1, used,
               a->seen, dy_rows, a->c, 1, dv, ld);
    kernels->causal_softmax_backward(dp, p, delta, a->first, a->rows, a->seen, a->seen,
                                     a->scale);
    pst__sgemm(PST_NO_TRANSPOSE, PST_NO_TRANSPOSE, a->rows, a->d, a->seen, 1, dp,
               a->seen, a->k, ld, 0, dq, ld);
    pst__sgemm(PST_TRANSPOSE, PST_NO_TRANSPOSE, a->seen, a->d, a->rows, 1, dp, a->seen,
               a->q + a->first * ld, ld, 1, dk, ld);
}

void pst__attention_backward_input(float *dqkv, const float *dy, const float *qkv,
                                   const float *y, const float *lse, size_t b, size_t t,
                                   size_t c, size_t h, const pst_dropout *dropout,
                                   float *scratch)
{
    memset(dqkv, 0, b * t * 3 * c * sizeof *dqkv);
    for (size_t i = 0; i < b; i++) {
        for (size_t index = 0; index < h; index++) {
            head a = head_of(qkv + i * t * 3 * c, t, c, h, index, dropout, i);
            size_t at = i * t * c + index * a.d;
            for (size_t first = 0; take_block(&a, first); first += a.rows)
                block_backward(&a, dqkv + i * t * 3 * c + index * a.d, dy + at, y + at,
                               lse + (i * h + index) * t, scratch);
        }
    }
}
