/* SPDX-License-Identifier: BSD-3-Clause */
/* hash.h - FNV-1a of 64 bits: tells two texts apart that differ by accident. */
#ifndef PST_TOOLS_HASH_H
#define PST_TOOLS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* `hash` goes on over so many bytes; HASH_START begins one. */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
