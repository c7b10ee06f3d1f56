/* SPDX-License-Identifier: BSD-3-Clause */
/* philox.c - Philox4x32-10, and normal numbers from it. */
#include <math.h>

#include "model/philox.h"

void pst__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Two normal numbers from two uniform ones (Box and Muller 1958). */
static void box_muller(uint32_t a, uint32_t b, double normal[2])
{
    const double two_pi = 6.283185307179586476925;
    double u = ((double)a + 1.0) / 4294967296.0; /* in (0, 1] */
    double radius = sqrt(-2.0 * log(u)), angle = two_pi * ((double)b / 4294967296.0);
    normal[0] = radius * cos(angle);
    normal[1] = radius * sin(angle);
}

void pst__philox_normal(uint64_t seed, uint32_t tensor, float deviation, float *data,
                        uint64_t count)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (uint64_t i = 0; i < count; i += 4) {
        uint32_t draws[4];
        const uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), tensor,
                                     PST_RANDOM_INIT};
        double normal[4];
        pst__philox(counter, key, draws);
        box_muller(draws[0], draws[1], normal);
        box_muller(draws[2], draws[3], normal + 2);
        for (uint64_t k = 0; k < 4 && i + k < count; k++)
            data[i + k] = deviation * (float)normal[k];
    }
}
