/* SPDX-License-Identifier: BSD-3-Clause */
/* little_endian.h - numbers as they stand in files, whatever this machine's order is.
 */
#ifndef PST_MODEL_LITTLE_ENDIAN_H
#define PST_MODEL_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pst__load_le(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | from[i];
    return value;
}

static inline void pst__store_le(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* `count` floats as the bytes of a file; a plain copy on little-endian machines. */
static inline void pst__store_floats(unsigned char *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        pst__store_le(to + 4 * i, bits, 4);
    }
}

#endif
