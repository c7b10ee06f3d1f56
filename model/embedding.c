/* SPDX-License-Identifier: BSD-3-Clause */
/* embedding.c - token and position vectors. */
#include <string.h>

#include "model/layers.h"

void pst__embedding_forward(float *y, const float *wte, const float *wpe,
                            const int32_t *ids, size_t b, size_t t, size_t c)
{
    for (size_t i = 0; i < b; i++)
        for (size_t p = 0; p < t; p++, y += c) {
            const float *token = wte + (size_t)ids[i * t + p] * c, *place = wpe + p * c;
            for (size_t k = 0; k < c; k++)
                y[k] = token[k] + place[k];
        }
}

/* A sum of one row, then one int a token and one an id. */
size_t pst__embedding_scratch(size_t b, size_t t, size_t c, size_t v)
{
    return c + b * t + v;
}

void pst__embedding_backward_weight(float *dwte, float *dwpe, const float *dy,
                                    const int32_t *ids, size_t b, size_t t, size_t c,
                                    size_t v, float *scratch)
{
    const pst_kernels *kernels = pst__kernels();
    float *sum = scratch;
    int32_t *next = (int32_t *)(void *)(scratch + c), *first = next + b * t;
    const int32_t none = -1;
    for (size_t id = 0; id < v; id++)
        first[id] = none;
    for (size_t i = b * t; i-- > 0;) { /* chains of equal ids, ascending */
        next[i] = first[ids[i]];
        first[ids[i]] = (int32_t)i;
    }
    for (size_t i = 0; i < b * t; i++) {
        if (first[ids[i]] != (int32_t)i)
            continue;
        memcpy(sum, dy + i * c, c * sizeof *sum);
        for (int32_t k = next[i]; k != none; k = next[k])
            kernels->add(sum, dy + (size_t)k * c, c);
        kernels->add(dwte + (size_t)ids[i] * c, sum, c);
    }
    for (size_t p = 0; p < t; p++) {
        memcpy(sum, dy + p * c, c * sizeof *sum);
        for (size_t i = 1; i < b; i++)
            kernels->add(sum, dy + (i * t + p) * c, c);
        kernels->add(dwpe + p * c, sum, c);
    }
}
