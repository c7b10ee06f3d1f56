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

/* Probabilities, their gradients, dropped probabilities; one delta a row. Of fewer
 * tokens than t more may be in a block. */
static size_t member_scratch(size_t t, size_t length)
{
    const size_t most = t < WHOLE_UP_TO ? t : WHOLE_UP_TO;
    const size_t shorter = (3 * most + 1) * most, all = (3 * t + 1) * block_rows(t);
    const size_t whole = all > shorter ? all : shorter;
    return ((length > 0 ? (3 * length + 1) * most : whole) + 15) / 16 * 16;
}

size_t pst__attention_scratch(size_t t, size_t length, size_t members)
{
    return members * member_scratch(t, length);
}

/* One head of one sequence, and the rows of it that are at work. */
typedef struct head {
    const float *q;     /* (t, d), rows 3c apart                           */
    const float *k, *v; /* (start + t, d), rows ld apart                   */
    float *dq;          /* as q, k and v; backward only                    */
    float *dk, *dv;
    size_t ld;
    size_t t, c, d;
    size_t start;       /* of row 0 in its sequence                        */
    size_t length;      /* of the sequence                                 */
    size_t index;       /* of the head                                     */
    size_t first, rows; /* the block                                       */
    size_t seen;        /* columns that its last row sees                  */
    float scale;
    pst_dropout dropout; /* rate 0: none                                    */
} head;

/* `index` of h, of the i-th sequence. */
static head head_of(const float *qkv, size_t t, size_t c, size_t h, size_t index,
                    const pst_sequence *sequence, const pst_dropout *dropout, size_t i)
{
    size_t d = c / h;
    const float *q = qkv + i * t * 3 * c + index * d;
    head a = {.q = q,
              .k = q + c,
              .v = q + 2 * c,
              .ld = 3 * c,
              .t = t,
              .c = c,
              .d = d,
              .length = t,
              .index = index,
              .scale = 1.0f / sqrtf((float)d)};
    if (sequence != NULL) {
        a.k = sequence->kv + i * sequence->length * 2 * c + index * d;
        a.v = a.k + c;
        a.ld = 2 * c;
        a.start = sequence->start;
        a.length = sequence->length;
    }
    if (dropout != NULL)
        a.dropout = *dropout;
    a.dropout.sequence += (uint32_t)i;
    return a;
}

/* Where the gradients of `a` go. */
static void add_gradients(head *a, float *dqkv, const pst_sequence *sequence, size_t i)
{
    a->dq = dqkv + i * a->t * 3 * a->c + a->index * a->d;
    a->dk = a->dq + a->c;
    if (sequence != NULL)
        a->dk = sequence->dkv + i * a->length * 2 * a->c + a->index * a->d;
    a->dv = a->dk + a->c;
}

/* Keys and values of the slice's tokens, from its qkv to all others'. */
static void keep_rows(const float *qkv, const pst_sequence *s, size_t b, size_t t,
                      size_t c)
{
    for (size_t i = 0; i < b; i++)
        for (size_t row = 0; row < t; row++)
            memcpy(s->kv + (i * s->length + s->start + row) * 2 * c,
                   qkv + (i * t + row) * 3 * c + c, 2 * c * sizeof *qkv);
}

/* And their gradients back. */
static void take_rows(float *dqkv, const pst_sequence *s, size_t b, size_t t, size_t c)
{
    for (size_t i = 0; i < b; i++)
        for (size_t row = 0; row < t; row++)
            memcpy(dqkv + (i * t + row) * 3 * c + c,
                   s->dkv + (i * s->length + s->start + row) * 2 * c,
                   2 * c * sizeof *dqkv);
}

/* The block that begins at row `first`; false behind the last. */
static int take_block(head *a, size_t first)
{
    size_t step = block_rows(a->t);
    a->first = first;
    a->rows = first + step < a->t ? step : a->t - first;
    a->seen = a->start + first + a->rows;
    return first < a->t;
}

/* scores (rows, seen) = q k^T of the block */
static void block_scores(const head *a, float *scores)
{
    size_t ld = 3 * a->c;
    pst__sgemm(PST_NO_TRANSPOSE, PST_TRANSPOSE, a->rows, a->seen, a->d, 1,
               a->q + a->first * ld, ld, a->k, a->ld, 0, scores, a->seen);
}

/* y = dropped-out x on the block's probabilities or their gradients; y may be x. */
static void block_dropout(const head *a, float *y, const float *x)
{
    pst_dropout d = a->dropout;
    for (size_t row = 0; row < a->rows; row++) {
        size_t place = a->start + a->first + row, seen = place + 1;
        d.element = (uint32_t)((a->index * a->length + place) * a->length);
        pst__kernels()->dropout(y + row * a->seen, x + row * a->seen, seen, seen, &d);
        memset(y + row * a->seen + seen, 0, (a->seen - seen) * sizeof *y);
    }
}

/* All heads of all sequences; each is a part of its own. */
typedef struct heads {
    float *y, *lse; /* backward only reads them                                 */
    const float *qkv, *dy;
    float *dqkv;
    size_t t, c, h;
    const pst_sequence *sequence;
    const pst_dropout *dropout;
    float *scratch; /* [members][stride]                                        */
    size_t stride;
} heads;

static heads all_heads(const float *y, const float *lse, const float *qkv, size_t t,
                       size_t c, size_t h, const pst_sequence *sequence,
                       const pst_dropout *dropout, float *scratch)
{
    return (heads){.y = (float *)y,
                   .lse = (float *)lse,
                   .qkv = qkv,
                   .t = t,
                   .c = c,
                   .h = h,
                   .sequence = sequence,
                   .dropout = dropout,
                   .scratch = scratch,
                   .stride = member_scratch(t, sequence ? sequence->length : 0)};
}

static head take_head(const heads *all, int part, float **y, float **lse)
{
    const size_t i = (size_t)part / all->h, index = (size_t)part % all->h;
    const head a = head_of(all->qkv, all->t, all->c, all->h, index, all->sequence,
                           all->dropout, i);
    *y = all->y + i * all->t * all->c + index * a.d;
    *lse = all->lse + (size_t)part * all->t;
    return a;
}

static void run_forward(void *user, int part, int member)
{
    const heads *all = user;
    const pst_kernels *kernels = pst__kernels();
    float *scratch = all->scratch + (size_t)member * all->stride;
    float *y, *lse;
    head a = take_head(all, part, &y, &lse);
    for (size_t first = 0; take_block(&a, first); first += a.rows) {
        block_scores(&a, scratch);
        kernels->causal_softmax(scratch, lse + first, a.start + first, a.rows, a.seen,
                                a.seen, a.scale);
        if (a.dropout.rate > 0)
            block_dropout(&a, scratch, scratch);
        pst__sgemm(PST_NO_TRANSPOSE, PST_NO_TRANSPOSE, a.rows, a.d, a.seen, 1, scratch,
                   a.seen, a.v, a.ld, 0, y + first * a.c, a.c);
    }
}

void pst__attention_forward(pst_team *team, float *y, float *lse, const float *qkv,
                            size_t b, size_t t, size_t c, size_t h,
                            const pst_sequence *sequence, const pst_dropout *dropout,
                            float *scratch)
{
    heads all = all_heads(y, lse, qkv, t, c, h, sequence, dropout, scratch);
    if (sequence != NULL)
        keep_rows(qkv, sequence, b, t, c);
    pst_team_run(team, (int)(b * h), run_forward, &all);
}

/* Gradients of one block: sets its rows of dq, adds to the rows of dk and dv it sees.
 */
static void block_backward(const head *a, const float *dy, const float *y,
                           const float *lse, float *scratch)
{
    const pst_kernels *kernels = pst__kernels();
    size_t ld = 3 * a->c, area = a->rows * a->seen, place = a->start + a->first;
    float *p = scratch, *dp = p + area, *delta = dp + area, *dropped = delta + a->rows;
    const float *dy_rows = dy + a->first * a->c;

    block_scores(a, p);
    kernels->causal_probabilities(p, lse + a->first, place, a->rows, a->seen, a->seen,
                                  a->scale);
    kernels->row_dot(delta, dy_rows, a->c, y + a->first * a->c, a->c, a->rows, a->d);
    pst__sgemm(PST_NO_TRANSPOSE, PST_TRANSPOSE, a->rows, a->seen, a->d, 1, dy_rows,
               a->c, a->v, a->ld, 0, dp, a->seen);
    const float *used = p; /* what forward multiplied v by */
    if (a->dropout.rate > 0) {
        block_dropout(a, dp, dp);
        block_dropout(a, dropped, p);
        used = dropped;
    }
    pst__sgemm(PST_TRANSPOSE, PST_NO_TRANSPOSE, a->seen, a->d, a->rows, 1, used,
               a->seen, dy_rows, a->c, 1, a->dv, a->ld);
    kernels->causal_softmax_backward(dp, p, delta, place, a->rows, a->seen, a->seen,
                                     a->scale);
    pst__sgemm(PST_NO_TRANSPOSE, PST_NO_TRANSPOSE, a->rows, a->d, a->seen, 1, dp,
               a->seen, a->k, a->ld, 0, a->dq + a->first * ld, ld);
    pst__sgemm(PST_TRANSPOSE, PST_NO_TRANSPOSE, a->seen, a->d, a->rows, 1, dp, a->seen,
               a->q + a->first * ld, ld, 1, a->dk, a->ld);
}

static void run_backward(void *user, int part, int member)
{
    const heads *all = user;
    float *y, *lse;
    head a = take_head(all, part, &y, &lse);
    add_gradients(&a, all->dqkv, all->sequence, (size_t)part / all->h);
    for (size_t first = 0; take_block(&a, first); first += a.rows)
        block_backward(&a, all->dy + (y - all->y), y, lse,
                       all->scratch + (size_t)member * all->stride);
}

void pst__attention_backward_input(pst_team *team, float *dqkv, const float *dy,
                                   const float *qkv, const float *y, const float *lse,
                                   size_t b, size_t t, size_t c, size_t h,
                                   const pst_sequence *sequence,
                                   const pst_dropout *dropout, float *scratch)
{
    heads all = all_heads(y, lse, qkv, t, c, h, sequence, dropout, scratch);
    all.dy = dy;
    all.dqkv = dqkv;
    if (sequence == NULL)
        memset(dqkv, 0, b * t * 3 * c * sizeof *dqkv);
    else if (sequence->start + t == sequence->length) /* the last slice */
        memset(sequence->dkv, 0, b * sequence->length * 2 * c * sizeof *dqkv);
    pst_team_run(team, (int)(b * h), run_backward, &all);
    if (sequence != NULL)
        take_rows(dqkv, sequence, b, t, c);
}
