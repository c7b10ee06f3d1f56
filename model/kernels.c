/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.c - the loops of kernels.h, in vectors of 16 floats whatever the CPU has.
 *
 * Compiled once for each level with PST_KERNEL_LEVEL set; GCC's vector extension cuts
 * the 16 lanes to what the level offers, so every level adds in the same order and
 * differs by fused multiply-add alone. It cuts comparisons to single floats, though, so
 * what compares is written for vectors of the level's own width.
 */
#include <math.h>
#include <string.h>

#include "model/kernels.h"
#include "model/philox.h"

/* 2, 3, 4: x86-64-v2 and so on; 0: whatever the compiler makes for any CPU. */
#ifndef PST_KERNEL_LEVEL
#define PST_KERNEL_LEVEL 0
#endif
#if PST_KERNEL_LEVEL == 4
#define TABLE      pst__kernels_v4
#define NATIVE     16
#define LEVEL_NAME "x86-64-v4"
#elif PST_KERNEL_LEVEL == 3
#define TABLE      pst__kernels_v3
#define NATIVE     8
#define LEVEL_NAME "x86-64-v3"
#elif PST_KERNEL_LEVEL == 2
#define TABLE      pst__kernels_v2
#define NATIVE     4
#define LEVEL_NAME "x86-64-v2"
#else
#define TABLE      pst__kernels_portable
#define NATIVE     4
#define LEVEL_NAME "portable"
#endif

extern const pst_kernels TABLE;

enum { LANES = 16 };

typedef float vf __attribute__((vector_size(LANES * 4)));

/* What one instruction of the level takes. */
typedef float vn __attribute__((vector_size(NATIVE * 4)));
typedef int32_t vi __attribute__((vector_size(NATIVE * 4)));

enum { PARTS = LANES / NATIVE };

static inline vf spread(float x)
{
    return x - (vf){0};
}

static inline vf load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

/* The last `count` < LANES elements, others `fill`. */
static inline vf load_part(const float *p, size_t count, float fill)
{
    float room[LANES];
    for (size_t k = 0; k < LANES; k++)
        room[k] = k < count ? p[k] : fill;
    return load(room);
}

static inline void store_part(float *p, vf v, size_t count)
{
    float room[LANES];
    store(room, v);
    for (size_t k = 0; k < count; k++)
        p[k] = room[k];
}

static inline vn part_of(const vf *v, size_t part)
{
    vn own;
    memcpy(&own, (const float *)v + part * NATIVE, sizeof own);
    return own;
}

static inline void set_part(vf *v, size_t part, vn own)
{
    memcpy((float *)v + part * NATIVE, &own, sizeof own);
}

static inline vn spread_native(float x)
{
    return x - (vn){0};
}

static inline vn choose(vi mask, vn yes, vn no)
{
    return (vn)((mask & (vi)yes) | (~mask & (vi)no));
}

static inline float sum_lanes(vf v)
{
    float x[LANES];
    store(x, v);
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t k = 0; k < width; k++)
            x[k] += x[k + width];
    return x[0];
}

static inline float max_lanes(vf v)
{
    float x[LANES];
    store(x, v);
    for (size_t k = 1; k < LANES; k++)
        x[0] = x[k] > x[0] ? x[k] : x[0];
    return x[0];
}

/*
 * e^x to about 1 ulp between -87 and 88; smaller gives e^-87, larger e^88, NaN NaN.
 * Cody and Waite's reduction; polynomial of the Cephes library (Moshier).
 */
static inline vn exp_native(vn x)
{
    const vn magic = spread_native(12582912.0f); /* 1.5 * 2^23: adding it rounds */
    x = choose(x < -87.0f, spread_native(-87.0f), x);
    x = choose(x > 88.0f, spread_native(88.0f), x);
    vn shifted = x * 1.44269504088896341f + magic;
    vn n = shifted - magic;
    vi exponent = ((vi)shifted - (vi)magic + 127) << 23;
    vn r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vn p = spread_native(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * (r * r) + r + 1.0f) * (vn)exponent;
}

static inline vf exp_lanes(vf x)
{
    vf y;
    for (size_t part = 0; part < PARTS; part++)
        set_part(&y, part, exp_native(part_of(&x, part)));
    return y;
}

static inline vf larger_lanes(vf a, vf b)
{
    vf y;
    for (size_t part = 0; part < PARTS; part++) {
        vn x = part_of(&a, part), z = part_of(&b, part);
        set_part(&y, part, choose(x > z, x, z));
    }
    return y;
}

/* ln x for a positive normal x; polynomial of the Cephes library. */
static float log_one(float x)
{
    uint32_t bits;
    if (!(x > 0) || x > 3e38f)
        return x == 0 ? -INFINITY : x > 0 ? INFINITY : NAN;
    memcpy(&bits, &x, sizeof bits);
    float e = (float)((int)(bits >> 23) - 126);
    bits = (bits & 0x7fffffu) | 0x3f000000u;
    memcpy(&x, &bits, sizeof x); /* in [0.5, 1) */
    if (x < 0.70710678f) {
        e -= 1.0f;
        x = x + x;
    }
    x -= 1.0f;
    static const float c[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                              -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                              2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
    float y = c[0], z = x * x;
    for (size_t k = 1; k < sizeof c / sizeof *c; k++)
        y = y * x + c[k];
    y = y * x * z + -2.12194440e-4f * e - 0.5f * z;
    return x + y + 0.693359375f * e;
}

static void layernorm_forward(float *y, float *mean, float *rstd, const float *x,
                              const float *gain, const float *bias, size_t n, size_t c,
                              float epsilon)
{
    size_t whole = c - c % LANES, rest = c - whole;
    for (size_t row = 0; row < n; row++, x += c, y += c) {
        vf sum = {0}, squares = {0};
        for (size_t i = 0; i < whole; i += LANES)
            sum += load(x + i);
        if (rest > 0)
            sum += load_part(x + whole, rest, 0);
        float mu = sum_lanes(sum) / (float)c;
        for (size_t i = 0; i < whole; i += LANES) {
            vf d = load(x + i) - mu;
            squares += d * d;
        }
        if (rest > 0) {
            vf d = load_part(x + whole, rest, mu) - mu;
            squares += d * d;
        }
        float r = 1.0f / sqrtf(sum_lanes(squares) / (float)c + epsilon);
        if (bias != NULL)
            for (size_t i = 0; i < c; i++)
                y[i] = (x[i] - mu) * r * gain[i] + bias[i];
        else
            for (size_t i = 0; i < c; i++)
                y[i] = (x[i] - mu) * r * gain[i];
        mean[row] = mu;
        rstd[row] = r;
    }
}

/* Sums over a row of g = dy * gain and of g * normalized, and this row's share of the
 * parameters' gradients. */
static inline void layernorm_row_sums(float *dgain, float *dbias, const float *dy,
                                      const float *x, const float *gain, size_t c,
                                      float mu, float r, float *sum_g, float *sum_gx)
{
    size_t whole = c - c % LANES, rest = c - whole;
    vf g_sum = {0}, gx_sum = {0};
    for (size_t i = 0; i < whole; i += LANES) {
        vf d = load(dy + i), normalized = (load(x + i) - mu) * r;
        vf g = d * load(gain + i);
        g_sum += g;
        gx_sum += g * normalized;
        store(dgain + i, load(dgain + i) + d * normalized);
        if (dbias != NULL)
            store(dbias + i, load(dbias + i) + d);
    }
    if (rest > 0) {
        vf d = load_part(dy + whole, rest, 0);
        vf normalized = (load_part(x + whole, rest, mu) - mu) * r;
        vf g = d * load_part(gain + whole, rest, 0);
        g_sum += g;
        gx_sum += g * normalized;
        store_part(dgain + whole, load_part(dgain + whole, rest, 0) + d * normalized,
                   rest);
        if (dbias != NULL)
            store_part(dbias + whole, load_part(dbias + whole, rest, 0) + d, rest);
    }
    *sum_g = sum_lanes(g_sum);
    *sum_gx = sum_lanes(gx_sum);
}

static void layernorm_backward(float *dx, float *dgain, float *dbias,
                               const float *residual, const float *dy, const float *x,
                               const float *mean, const float *rstd, const float *gain,
                               size_t n, size_t c)
{
    memset(dgain, 0, c * sizeof *dgain);
    if (dbias != NULL)
        memset(dbias, 0, c * sizeof *dbias);
    for (size_t row = 0; row < n; row++, dy += c, x += c, dx += c) {
        float mu = mean[row], r = rstd[row], sum_g, sum_gx;
        layernorm_row_sums(dgain, dbias, dy, x, gain, c, mu, r, &sum_g, &sum_gx);
        float mean_g = sum_g / (float)c, mean_gx = sum_gx / (float)c;
        if (residual != NULL) {
            for (size_t i = 0; i < c; i++) {
                float normalized = (x[i] - mu) * r;
                dx[i] =
                    residual[i] + (dy[i] * gain[i] - mean_g - normalized * mean_gx) * r;
            }
            residual += c;
        } else {
            for (size_t i = 0; i < c; i++) {
                float normalized = (x[i] - mu) * r;
                dx[i] = (dy[i] * gain[i] - mean_g - normalized * mean_gx) * r;
            }
        }
    }
}

/*
 * The normal distribution: its density and its integral, sharing one exponential.
 * Abramowitz and Stegun 7.1.26 for erf(|x| / sqrt 2), absolute error 1.5e-7.
 */
static inline vn normal_integral(vn x, vn *density)
{
    vn size = choose(x < 0.0f, -x, x) * 0.70710678118654752f;
    vn e = exp_native(-(size * size));
    vn t = 1.0f / (1.0f + 0.3275911f * size);
    vn p = spread_native(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    vn upper = 0.5f * (p * t) * e; /* the integral from |x| to infinity */
    *density = e * 0.39894228040143268f;
    return choose(x < 0.0f, upper, 1.0f - upper);
}

/* tanh-form GELU: u = sqrt(2/pi)(x + 0.044715 x^3); returns (1 + tanh u) / 2. */
static inline vn tanh_integral(vn x)
{
    vn u = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return 1.0f / (1.0f + exp_native(-2.0f * u));
}

static inline vn gelu_native(vn x, int tanh_form)
{
    vn density;
    return x * (tanh_form ? tanh_integral(x) : normal_integral(x, &density));
}

static inline vn gelu_slope(vn x, int tanh_form)
{
    if (!tanh_form) {
        vn density, below = normal_integral(x, &density);
        return below + x * density;
    }
    vn s = tanh_integral(x); /* d tanh(u)/2 = 2 s (1 - s) du */
    vn slope = 0.79788456080286536f * (1.0f + 3.0f * 0.044715f * x * x);
    return s + 2.0f * x * s * (1.0f - s) * slope;
}

/* The next `count` elements, at most NATIVE; those beyond are 0. */
static inline vn load_native(const float *p, size_t count)
{
    vn v = {0};
    memcpy(&v, p, (count < NATIVE ? count : NATIVE) * sizeof *p);
    return v;
}

static inline void store_native(float *p, vn v, size_t count)
{
    memcpy(p, &v, (count < NATIVE ? count : NATIVE) * sizeof *p);
}

static inline void gelu_forward_form(float *y, const float *x, size_t count,
                                     int tanh_form)
{
    size_t i = 0;
    for (; i + NATIVE <= count; i += NATIVE)
        store_native(y + i, gelu_native(load_native(x + i, NATIVE), tanh_form), NATIVE);
    if (i < count)
        store_native(y + i, gelu_native(load_native(x + i, count - i), tanh_form),
                     count - i);
}

static void gelu_forward(float *y, const float *x, size_t count, int tanh_form)
{
    if (tanh_form)
        gelu_forward_form(y, x, count, 1);
    else
        gelu_forward_form(y, x, count, 0);
}

static inline void gelu_backward_form(float *dx, const float *dy, const float *x,
                                      size_t count, int tanh_form)
{
    size_t i = 0;
    for (; i + NATIVE <= count; i += NATIVE) {
        vn slope = gelu_slope(load_native(x + i, NATIVE), tanh_form);
        store_native(dx + i, load_native(dy + i, NATIVE) * slope, NATIVE);
    }
    if (i < count) {
        vn slope = gelu_slope(load_native(x + i, count - i), tanh_form);
        store_native(dx + i, load_native(dy + i, count - i) * slope, count - i);
    }
}

static void gelu_backward(float *dx, const float *dy, const float *x, size_t count,
                          int tanh_form)
{
    if (tanh_form)
        gelu_backward_form(dx, dy, x, count, 1);
    else
        gelu_backward_form(dx, dy, x, count, 0);
}

static void residual_add(float *y, const float *x, const float *a, const float *bias,
                         size_t n, size_t c)
{
    if (bias == NULL) {
        for (size_t i = 0; i < n * c; i++)
            y[i] = x[i] + a[i];
        return;
    }
    for (size_t row = 0; row < n; row++, y += c, x += c, a += c)
        for (size_t i = 0; i < c; i++)
            y[i] = x[i] + (a[i] + bias[i]);
}

static void bias_add(float *y, const float *bias, size_t n, size_t c)
{
    for (size_t row = 0; row < n; row++, y += c)
        for (size_t i = 0; i < c; i++)
            y[i] += bias[i];
}

static void column_sum(float *sum, const float *x, size_t n, size_t c)
{
    memset(sum, 0, c * sizeof *sum);
    for (size_t row = 0; row < n; row++, x += c)
        for (size_t i = 0; i < c; i++)
            sum[i] += x[i];
}

static void add(float *y, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

static inline float row_max(const float *x, size_t count)
{
    size_t whole = count - count % LANES;
    vf largest = spread(-INFINITY);
    for (size_t i = 0; i < whole; i += LANES)
        largest = larger_lanes(load(x + i), largest);
    if (whole < count)
        largest = larger_lanes(load_part(x + whole, count - whole, -INFINITY), largest);
    return max_lanes(largest);
}

/* out = exp(scale * x - shift); returns the sum. out may be x. */
static inline float row_exp(float *out, const float *x, size_t count, float scale,
                            float shift)
{
    size_t whole = count - count % LANES, rest = count - whole;
    vf sum = {0};
    for (size_t i = 0; i < whole; i += LANES) {
        vf e = exp_lanes(load(x + i) * scale - shift);
        store(out + i, e);
        sum += e;
    }
    if (rest > 0) {
        float room[LANES];
        store(room, exp_lanes(load_part(x + whole, rest, 0) * scale - shift));
        for (size_t k = 0; k < rest; k++)
            out[whole + k] = room[k];
        sum += load_part(room, rest, 0);
    }
    return sum_lanes(sum);
}

static void causal_softmax(float *scores, float *lse, size_t first, size_t rows,
                           size_t columns, size_t stride, float scale)
{
    for (size_t row = 0; row < rows; row++, scores += stride) {
        size_t seen = first + row + 1;
        float shift = row_max(scores, seen) * scale;
        float sum = row_exp(scores, scores, seen, scale, shift);
        float inverse = 1.0f / sum;
        for (size_t i = 0; i < seen; i++)
            scores[i] *= inverse;
        memset(scores + seen, 0, (columns - seen) * sizeof *scores);
        lse[row] = shift + log_one(sum);
    }
}

static void causal_probabilities(float *scores, const float *lse, size_t first,
                                 size_t rows, size_t columns, size_t stride,
                                 float scale)
{
    for (size_t row = 0; row < rows; row++, scores += stride) {
        size_t seen = first + row + 1;
        row_exp(scores, scores, seen, scale, lse[row]);
        memset(scores + seen, 0, (columns - seen) * sizeof *scores);
    }
}

static void causal_softmax_backward(float *dp, const float *p, const float *delta,
                                    size_t first, size_t rows, size_t columns,
                                    size_t stride, float scale)
{
    for (size_t row = 0; row < rows; row++, dp += stride, p += stride) {
        size_t seen = first + row + 1;
        float d = delta[row];
        for (size_t i = 0; i < seen; i++)
            dp[i] = scale * p[i] * (dp[i] - d);
        memset(dp + seen, 0, (columns - seen) * sizeof *dp);
    }
}

static void row_dot(float *dot, const float *a, size_t lda, const float *b, size_t ldb,
                    size_t n, size_t c)
{
    size_t whole = c - c % LANES;
    for (size_t row = 0; row < n; row++, a += lda, b += ldb) {
        vf sum = {0};
        for (size_t i = 0; i < whole; i += LANES)
            sum += load(a + i) * load(b + i);
        if (whole < c)
            sum +=
                load_part(a + whole, c - whole, 0) * load_part(b + whole, c - whole, 0);
        dot[row] = sum_lanes(sum);
    }
}

/* log of the row's sum of exponentials, without changing it. */
static inline float row_lse(const float *x, size_t count)
{
    float shift = row_max(x, count);
    size_t whole = count - count % LANES;
    vf sum = {0};
    for (size_t i = 0; i < whole; i += LANES)
        sum += exp_lanes(load(x + i) - shift);
    if (whole < count) {
        float room[LANES];
        store(room, exp_lanes(load_part(x + whole, count - whole, 0) - shift));
        sum += load_part(room, count - whole, 0);
    }
    return shift + log_one(sum_lanes(sum));
}

static void cross_entropy(float *logits, const int32_t *labels, size_t n, size_t v,
                          float scale, int gradient, double *loss)
{
    for (size_t row = 0; row < n; row++, logits += v) {
        if (labels[row] < 0) {
            if (gradient)
                memset(logits, 0, v * sizeof *logits);
            continue;
        }
        float lse = row_lse(logits, v);
        *loss += (double)lse - (double)logits[labels[row]];
        if (!gradient)
            continue;
        row_exp(logits, logits, v, 1.0f, lse);
        logits[labels[row]] -= 1.0f;
        for (size_t i = 0; i < v; i++)
            logits[i] *= scale;
    }
}

static void dropout(float *y, const float *x, size_t count, size_t per_sequence,
                    const pst_dropout *d)
{
    float kept = 1.0f / (1.0f - d->rate);
    uint32_t draws[4], counter[4] = {0, 0, d->step, PST_RANDOM_DROPOUT | d->place << 8};
    uint32_t sequence = d->sequence;
    for (size_t first = 0; first < count; first += per_sequence, sequence++) {
        counter[1] = sequence;
        for (size_t k = 0; k < per_sequence && first + k < count; k++) {
            size_t element = d->element + k, i = first + k;
            if (k == 0 || element % 4 == 0) {
                counter[0] = (uint32_t)(element / 4);
                pst__philox(counter, d->key, draws);
            }
            y[i] = pst__uniform(draws[element % 4]) < d->rate ? 0.0f : x[i] * kept;
        }
    }
}

static void adamw(float *w, const float *g, float *m, float *v, size_t count,
                  float clip, float rate, float decay, float beta1, float beta2,
                  float c1, float c2, float epsilon)
{
    float keep = 1.0f - decay;
    for (size_t i = 0; i < count; i++) {
        float gradient = g[i] * clip;
        float first = beta1 * m[i] + (1.0f - beta1) * gradient;
        float second = beta2 * v[i] + (1.0f - beta2) * gradient * gradient;
        m[i] = first;
        v[i] = second;
        w[i] = w[i] * keep - rate * (first * c1) / (sqrtf(second * c2) + epsilon);
    }
}

static double sum_squares(const float *x, size_t count)
{
    double sums[LANES] = {0};
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t i = whole; i < count; i++)
        sums[i - whole] += (double)x[i] * (double)x[i];
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t k = 0; k < width; k++)
            sums[k] += sums[k + width];
    return sums[0];
}

const pst_kernels TABLE = {
    .level = LEVEL_NAME,
    .layernorm_forward = layernorm_forward,
    .layernorm_backward = layernorm_backward,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .residual_add = residual_add,
    .bias_add = bias_add,
    .column_sum = column_sum,
    .add = add,
    .causal_softmax = causal_softmax,
    .causal_probabilities = causal_probabilities,
    .causal_softmax_backward = causal_softmax_backward,
    .row_dot = row_dot,
    .cross_entropy = cross_entropy,
    .dropout = dropout,
    .adamw = adamw,
    .sum_squares = sum_squares,
};
