/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * philox.h - random numbers by counter, the same wherever and whenever they are drawn.
 *
 * Philox4x32-10. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
 * 3".
 */
#ifndef PST_MODEL_PHILOX_H
#define PST_MODEL_PHILOX_H

#include <stdint.h>

/* Four 32-bit numbers for a 128-bit counter and a 64-bit key. */
void pst__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* What a stream of numbers is for; the top word of its counter, so streams never meet.
 */
enum pst_random_use {
    PST_RANDOM_INIT = 1, /* counter: tensor, element / 4                       */
    PST_RANDOM_DATA,     /* counter: step, sequence                            */
    PST_RANDOM_DROPOUT,  /* counter: step, sequence, layer and place, element / 4 */
    PST_RANDOM_SAMPLE    /* counter: position                                  */
};

/* In [0, 1), 24 bits. */
static inline float pst__uniform(uint32_t bits)
{
    return (float)(bits >> 8) * (1.0f / 16777216.0f);
}

/* `count` normal numbers of mean 0 for tensor number `tensor` (Box-Muller). */
void pst__philox_normal(uint64_t seed, uint32_t tensor, float deviation, float *data,
                        uint64_t count);

#endif
