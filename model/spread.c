/* SPDX-License-Identifier: BSD-3-Clause */
/* spread.c - one product or kernel in parts. */
#include "model/spread.h"

#include "model/cut.h"
#include "model/sgemm.h"

/* Floats of a part, at least, where they only stream by; and where they cost more. */
enum { STREAMED = 64 * 1024, COMPUTED = 16 * 1024 };

/* ---- products ------------------------------------------------------------------- */

typedef struct product {
    int transpose_a, transpose_b;
    size_t m, n, k;
    const float *a;
    size_t lda;
    const float *b;
    size_t ldb;
    float beta;
    float *c;
    size_t ldc;
    size_t parts;
    int along_n;
} product;

static void run_product(void *user, int part, int member)
{
    const product *p = user;
    const size_t edge = p->along_n ? p->n : p->m;
    const size_t first = pst__cut_start(edge, p->parts, (size_t)part);
    const size_t count = pst__cut_start(edge, p->parts, (size_t)part + 1) - first;
    (void)member;
    if (p->along_n)
        pst__sgemm(p->transpose_a, p->transpose_b, p->m, count, p->k, 1, p->a, p->lda,
                   p->b + (p->transpose_b ? first * p->ldb : first), p->ldb, p->beta,
                   p->c + first, p->ldc);
    else
        pst__sgemm(p->transpose_a, p->transpose_b, count, p->n, p->k, 1,
                   p->a + (p->transpose_a ? first : first * p->lda), p->lda, p->b,
                   p->ldb, p->beta, p->c + first * p->ldc, p->ldc);
}

void pst__spread_sgemm(pst_team *team, int transpose_a, int transpose_b, size_t m,
                       size_t n, size_t k, const float *a, size_t lda, const float *b,
                       size_t ldb, float beta, float *c, size_t ldc)
{
    const size_t along_m = pst__cut_product(m, n, k);
    const size_t along_n = pst__cut_product(n, m, k);
    product p = {.transpose_a = transpose_a,
                 .transpose_b = transpose_b,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = a,
                 .lda = lda,
                 .b = b,
                 .ldb = ldb,
                 .beta = beta,
                 .c = c,
                 .ldc = ldc,
                 .parts = along_n > along_m ? along_n : along_m,
                 .along_n = along_n > along_m};
    pst_team_run(team, (int)p.parts, run_product, &p);
}

/* ---- kernels that go by row ------------------------------------------------------ */

typedef struct rows {
    float *y, *mean, *rstd;
    const float *x, *a, *gain, *bias;
    const int32_t *labels;
    double *losses; /* [parts]                                                  */
    size_t n, c;
    float number; /* epsilon, or scale                                          */
    int gradient;
    size_t parts;
} rows;

static size_t first_row(const rows *r, int part)
{
    return pst__cut_start(r->n, r->parts, (size_t)part);
}

static void run_rows(pst_team *team, rows *r, size_t least, pst_team_part part)
{
    r->parts = pst__cut_parts(r->n, least / r->c + 16);
    pst_team_run(team, (int)r->parts, part, r);
}

static void layernorm_rows(void *user, int part, int member)
{
    const rows *r = user;
    const size_t row = first_row(r, part);
    (void)member;
    pst__kernels()->layernorm_forward(r->y + row * r->c, r->mean + row, r->rstd + row,
                                      r->x + row * r->c, r->gain, r->bias,
                                      first_row(r, part + 1) - row, r->c, r->number);
}

void pst__spread_layernorm(pst_team *team, float *y, float *mean, float *rstd,
                           const float *x, const float *gain, const float *bias,
                           size_t n, size_t c, float epsilon)
{
    rows r = {.y = y,
              .mean = mean,
              .rstd = rstd,
              .x = x,
              .gain = gain,
              .bias = bias,
              .n = n,
              .c = c,
              .number = epsilon};
    run_rows(team, &r, STREAMED, layernorm_rows);
}

static void residual_rows(void *user, int part, int member)
{
    const rows *r = user;
    const size_t row = first_row(r, part), at = row * r->c;
    (void)member;
    pst__kernels()->residual_add(r->y + at, r->x + at, r->a + at, r->bias,
                                 first_row(r, part + 1) - row, r->c);
}

void pst__spread_residual(pst_team *team, float *y, const float *x, const float *a,
                          const float *bias, size_t n, size_t c)
{
    rows r = {.y = y, .x = x, .a = a, .bias = bias, .n = n, .c = c};
    run_rows(team, &r, STREAMED, residual_rows);
}

static void bias_rows(void *user, int part, int member)
{
    const rows *r = user;
    const size_t row = first_row(r, part);
    (void)member;
    pst__kernels()->bias_add(r->y + row * r->c, r->bias, first_row(r, part + 1) - row,
                             r->c);
}

void pst__spread_bias(pst_team *team, float *y, const float *bias, size_t n, size_t c)
{
    rows r = {.y = y, .bias = bias, .n = n, .c = c};
    run_rows(team, &r, STREAMED, bias_rows);
}

static void cross_entropy_rows(void *user, int part, int member)
{
    const rows *r = user;
    const size_t row = first_row(r, part);
    (void)member;
    r->losses[part] = 0;
    pst__kernels()->cross_entropy(r->y + row * r->c, r->labels + row,
                                  first_row(r, part + 1) - row, r->c, r->number,
                                  r->gradient, &r->losses[part]);
}

void pst__spread_cross_entropy(pst_team *team, float *logits, const int32_t *labels,
                               size_t n, size_t v, float scale, int gradient,
                               double *loss)
{
    double losses[PST_MOST_PARTS];
    rows r = {.y = logits,
              .labels = labels,
              .losses = losses,
              .n = n,
              .c = v,
              .number = scale,
              .gradient = gradient};
    run_rows(team, &r, COMPUTED, cross_entropy_rows);
    *loss = 0;
    for (size_t part = 0; part < r.parts; part++)
        *loss += losses[part];
}

/* ---- kernels that go by element ---------------------------------------------------
 */

typedef struct elements {
    float *y;
    const float *x, *dy;
    size_t count;
    size_t per_sequence;
    const pst_dropout *dropout;
    int tanh_form;
    size_t parts;
} elements;

static size_t first_element(const elements *e, int part)
{
    return pst__cut_start(e->count, e->parts, (size_t)part);
}

static void gelu_elements(void *user, int part, int member)
{
    const elements *e = user;
    const size_t at = first_element(e, part), count = first_element(e, part + 1) - at;
    (void)member;
    if (e->dy)
        pst__kernels()->gelu_backward(e->y + at, e->dy + at, e->x + at, count,
                                      e->tanh_form);
    else
        pst__kernels()->gelu_forward(e->y + at, e->x + at, count, e->tanh_form);
}

void pst__spread_gelu(pst_team *team, float *y, const float *x, size_t count,
                      int tanh_form)
{
    pst__spread_gelu_backward(team, y, NULL, x, count, tanh_form);
}

void pst__spread_gelu_backward(pst_team *team, float *dx, const float *dy,
                               const float *x, size_t count, int tanh_form)
{
    elements e = {.y = dx,
                  .x = x,
                  .dy = dy,
                  .count = count,
                  .tanh_form = tanh_form,
                  .parts = pst__cut_parts(count, COMPUTED)};
    pst_team_run(team, (int)e.parts, gelu_elements, &e);
}

static void dropout_elements(void *user, int part, int member)
{
    const elements *e = user;
    const size_t at = (size_t)part * e->per_sequence;
    pst_dropout dropout = *e->dropout;
    (void)member;
    dropout.sequence += (uint32_t)part;
    pst__kernels()->dropout(e->y + at, e->x + at, e->per_sequence, e->per_sequence,
                            &dropout);
}

void pst__spread_dropout(pst_team *team, float *y, const float *x, size_t count,
                         size_t per_sequence, const pst_dropout *dropout)
{
    elements e = {.y = y, .x = x, .per_sequence = per_sequence, .dropout = dropout};
    pst_team_run(team, (int)(count / per_sequence), dropout_elements, &e);
}
