/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_blas.c - products of many threads at once against a plain loop; what is refused.
 *
 * PENSTOCK_TEST_PRODUCTS=10000 makes as many in each thread.
 */
#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/blas.h>

#include "model/philox.h"
#include "model/sgemm.h"
#include "tests/suite.h"

enum { THREADS = 8, LARGEST = 48, ROOM = LARGEST * (LARGEST + 3) };

/* One thread's numbers. */
typedef struct caller {
    uint32_t key;
    uint32_t drawn;
    int products;
    int wrong;
    char first[160]; /* of what is wrong                                       */
    float a[ROOM], b[ROOM], c[ROOM], before[ROOM];
} caller;

static uint32_t draw(caller *w, uint32_t below)
{
    const uint32_t key[2] = {w->key, 0}, counter[4] = {w->drawn++, 0, 0, 3};
    uint32_t bits[4];
    pst__philox(counter, key, bits);
    return bits[0] % below;
}

typedef struct shape {
    int m, n, k;
    int transpose_a, transpose_b;
    size_t lda, ldb, ldc;
    float alpha, beta;
} shape;

static double element(const float *x, int transpose, size_t ld, int row, int column)
{
    return transpose ? x[(size_t)column * ld + (size_t)row]
                     : x[(size_t)row * ld + (size_t)column];
}

static void compare(caller *w, const shape *s, const char *what)
{
    for (int i = 0; i < s->m; i++)
        for (int j = 0; j < s->n; j++) {
            const size_t at = (size_t)i * s->ldc + (size_t)j;
            double sum = 0;
            for (int l = 0; l < s->k; l++)
                sum += element(w->a, s->transpose_a, s->lda, i, l) *
                       element(w->b, s->transpose_b, s->ldb, l, j);
            sum *= s->alpha;
            if (s->beta != 0)
                sum += (double)s->beta * w->before[at];
            if (fabs(sum - w->c[at]) <= 1e-5 * (s->k + 1))
                continue;
            if (w->wrong++ == 0)
                snprintf(w->first, sizeof w->first,
                         "%s %d x %d x %d, beta %g: element %d, %d is %g, due %g", what,
                         s->m, s->n, s->k, (double)s->beta, i, j, (double)w->c[at],
                         sum);
        }
}

/* c holds NaN where it must not be read. */
static void fill(caller *w, const shape *s)
{
    for (size_t i = 0; i < ROOM; i++) {
        w->a[i] = (float)draw(w, 2001) / 1000 - 1;
        w->b[i] = (float)draw(w, 2001) / 1000 - 1;
        w->before[i] = s->beta == 0 ? NAN : (float)draw(w, 2001) / 1000 - 1;
    }
    memcpy(w->c, w->before, sizeof w->c);
}

static shape random_shape(caller *w)
{
    shape s = {.m = 1 + (int)draw(w, LARGEST),
               .n = 1 + (int)draw(w, LARGEST),
               .k = (int)draw(w, 8) == 0 ? 0 : (int)draw(w, LARGEST + 1),
               .transpose_a = (int)draw(w, 2),
               .transpose_b = (int)draw(w, 2),
               .alpha = draw(w, 2) ? 1 : 0.5f,
               .beta = draw(w, 2) ? 0 : 1};
    s.lda = (size_t)(s.transpose_a ? s.m : s.k) + draw(w, 3);
    s.ldb = (size_t)(s.transpose_b ? s.k : s.n) + draw(w, 3);
    s.ldc = (size_t)s.n + draw(w, 3);
    s.lda += s.lda == 0; /* BLAS wants 1 where there is nothing */
    s.ldb += s.ldb == 0;
    return s;
}

static void multiply(caller *w)
{
    const shape s = random_shape(w);
    fill(w, &s);
    pst__sgemm(s.transpose_a, s.transpose_b, (size_t)s.m, (size_t)s.n, (size_t)s.k,
               s.alpha, w->a, s.lda, w->b, s.ldb, s.beta, w->c, s.ldc);
    compare(w, &s, "sgemm");
}

/* A matrix and a vector: c (m) = alpha op(a) (m,k) b (k) + beta c. */
static void multiply_vector(caller *w)
{
    shape s = random_shape(w);
    s.n = 1;
    s.transpose_b = 0;
    s.ldb = s.ldc = 1;
    s.k += s.k == 0;
    s.lda = (size_t)(s.transpose_a ? s.m : s.k) + draw(w, 3);
    fill(w, &s);
    cblas_sgemv(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
                s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.alpha, w->a,
                (int)s.lda, w->b, 1, s.beta, w->c, 1);
    compare(w, &s, "sgemv");
}

static void *call_often(void *argument)
{
    caller *w = argument;
    for (int i = 0; i < w->products; i++)
        if (i % 4 == 3)
            multiply_vector(w);
        else
            multiply(w);
    return NULL;
}

START_TEST(many_threads_get_the_products_of_a_plain_loop)
{
    static caller callers[THREADS];
    pthread_t threads[THREADS];
    const char *asked = getenv("PENSTOCK_TEST_PRODUCTS");
    const int products = asked ? atoi(asked) : 500;
    const int acquired = pst_blas_acquire();
    for (int i = 0; i < THREADS; i++) {
        callers[i].key = (uint32_t)i + 1;
        callers[i].products = products;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    pst_blas_release(acquired);
    for (int i = 0; i < THREADS; i++)
        ck_assert_msg(callers[i].wrong == 0, "thread %d: %d wrong, the first: %s", i,
                      callers[i].wrong, callers[i].first);
}
END_TEST

START_TEST(more_workers_than_buffers_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_blas_info info;
    pst_blas_describe(&info);
    if (!strstr(info.config, "MAX_THREADS=") || info.threading == PST_BLAS_SERIAL)
        return;
    ck_assert_int_eq(pst_blas_check(NULL, 1, &err), PST_OK);
    ck_assert_int_eq(pst_blas_check(NULL, 50, &err), PST_OK);
    ck_assert_int_eq(pst_blas_check(NULL, 60000000, &err), PST_ESYSTEM);
    ck_assert_ptr_nonnull(
        strstr(err.text,
               "60000000 workers call OpenBLAS at once; this build has buffers for "));
    ck_assert_ptr_nonnull(strstr(err.text, info.config));
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("blas");
    TCase *blas = tcase_create("blas");
    tcase_set_timeout(blas, 600);
    tcase_add_test(blas, many_threads_get_the_products_of_a_plain_loop);
    tcase_add_test(blas, more_workers_than_buffers_are_refused);
    suite_add_tcase(suite, blas);
    return suite;
}
