/* SPDX-License-Identifier: BSD-3-Clause */
/* digest.c - SHA-256 by libmd; the only file that knows that library. */
#include "model/digest.h"

#include <sha2.h>

#include "model/little_endian.h"

_Static_assert(sizeof(SHA2_CTX) <= sizeof(pst__digest), "libmd's state does not fit");

static SHA2_CTX *context_of(pst__digest *digest)
{
    return (SHA2_CTX *)(void *)digest;
}

void pst__digest_begin(pst__digest *digest)
{
    SHA256Init(context_of(digest));
}

void pst__digest_add(pst__digest *digest, const void *data, size_t bytes)
{
    if (bytes > 0)
        SHA256Update(context_of(digest), data, bytes);
}

char *pst__digest_end(pst__digest *digest, char text[PST_DIGEST_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t raw[SHA256_DIGEST_LENGTH];

    SHA256Final(raw, context_of(digest));
    for (size_t i = 0; i < sizeof raw; i++) {
        text[2 * i] = digits[raw[i] >> 4];
        text[2 * i + 1] = digits[raw[i] & 15];
    }
    text[2 * sizeof raw] = '\0';
    return text;
}

char *pst__digest_bytes(const void *data, size_t bytes, char text[PST_DIGEST_TEXT_SIZE])
{
    pst__digest digest;
    pst__digest_begin(&digest);
    pst__digest_add(&digest, data, bytes);
    return pst__digest_end(&digest, text);
}

static void add_floats(pst__digest *digest, const float *data, size_t count)
{
    unsigned char part[4096];
    while (count > 0) {
        size_t n = count < sizeof part / 4 ? count : sizeof part / 4;
        pst__store_floats(part, data, n);
        pst__digest_add(digest, part, 4 * n);
        data += n;
        count -= n;
    }
}

char *pst__digest_floats(const float *data, size_t count,
                         char text[PST_DIGEST_TEXT_SIZE])
{
    pst__digest digest;
    pst__digest_begin(&digest);
    add_floats(&digest, data, count);
    return pst__digest_end(&digest, text);
}

static void add_number(pst__digest *digest, uint64_t value)
{
    unsigned char bytes[8];
    pst__store_le(bytes, value, 8);
    pst__digest_add(digest, bytes, sizeof bytes);
}

void pst__digest_tensor(pst__digest *digest, const pst_tensor *tensor,
                        const float *data)
{
    pst__digest_add(digest, tensor->name, strlen(tensor->name) + 1);
    add_number(digest, (uint64_t)tensor->dims);
    for (int d = 0; d < tensor->dims; d++)
        add_number(digest, tensor->shape[d]);
    add_floats(digest, data, tensor->count);
}

char *pst__digest_tensors(const pst_tensor *tensors, size_t count,
                          char text[PST_DIGEST_TEXT_SIZE])
{
    pst__digest digest;
    pst__digest_begin(&digest);
    for (size_t i = 0; i < count; i++)
        pst__digest_tensor(&digest, &tensors[i], tensors[i].data);
    return pst__digest_end(&digest, text);
}
