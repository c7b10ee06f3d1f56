/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * race.c - the memory that is explored, and plain accesses to it.
 *
 * The compiler's instrumentation for ThreadSanitizer calls the functions at the end
 * for every plain access; no ThreadSanitizer is linked. Each four bytes remember who
 * wrote them last and who has read them since, and at which of its events.
 */
#include <string.h>

#include "tests/stages/explore/machine.h"

enum { MEMORY_BYTES = 1 << 16, CELL_BYTES = 4, CELLS = MEMORY_BYTES / CELL_BYTES };

/* Events count from 1; 0 is never. */
typedef struct cell {
    uint8_t writer;
    uint8_t written;
    uint8_t read[THREADS];
} cell;

static struct {
    _Alignas(64) unsigned char memory[MEMORY_BYTES];
    unsigned char initial[MEMORY_BYTES];
    size_t used;
    size_t initially_used;
    cell cells[CELLS];
} r;

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    const size_t start = (r.used + alignment - 1) / alignment * alignment;
    if (bytes > MEMORY_BYTES - start)
        return NULL;
    r.used = start + bytes;
    return memset(r.memory + start, 0, bytes);
}

static void release(void *user, void *memory)
{
    (void)user;
    (void)memory; /* all at once, in race_restore() */
}

const pst_env explore_env = {.allocate = allocate, .release = release};

static void forget_accesses(void)
{
    memset(r.cells, 0, (r.used + CELL_BYTES - 1) / CELL_BYTES * sizeof r.cells[0]);
}

void race_reset(void)
{
    forget_accesses();
    r.used = 0;
}

void race_remember(void)
{
    memcpy(r.initial, r.memory, r.used);
    r.initially_used = r.used;
}

void race_restore(void)
{
    forget_accesses();
    r.used = r.initially_used;
    memcpy(r.memory, r.initial, r.used);
}

size_t race_offset(const void *address)
{
    return (uintptr_t)address - (uintptr_t)r.memory;
}

bool race_covers(const void *address)
{
    return race_offset(address) < r.used;
}

static void touch(const void *address, size_t bytes, bool is_write)
{
    const int self = search_thread();
    if (self == NOWHERE || !race_covers(address))
        return;
    const uint8_t *seen = memory_known(self)->seen;
    const uint8_t now = (uint8_t)(seen[self] + 1);
    const size_t offset = race_offset(address);
    for (size_t i = offset / CELL_BYTES; i <= (offset + bytes - 1) / CELL_BYTES; i++) {
        cell *c = &r.cells[i];
        if (c->written && c->writer != self && seen[c->writer] < c->written)
            explore_fail("thread %d %s what thread %d has written, at %zu", self,
                         is_write ? "writes" : "reads", c->writer, i * CELL_BYTES);
        for (int other = 0; is_write && other < THREADS; other++)
            if (other != self && seen[other] < c->read[other])
                explore_fail("thread %d writes what thread %d reads, at %zu", self,
                             other, i * CELL_BYTES);
        if (is_write) {
            c->writer = (uint8_t)self;
            c->written = now;
        } else {
            c->read[self] = now;
        }
    }
}

/* ---- called by compiled code -------------------------------------------------- */

void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);
void __tsan_read_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *address, size_t bytes)
{
    touch(address, bytes, false);
}

void __tsan_write_range(void *address, size_t bytes)
{
    touch(address, bytes, true);
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    return __tsan_memmove(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        touch(from, bytes, false);
        touch(to, bytes, true);
    }
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
    if (bytes > 0)
        touch(to, bytes, true);
    return memset(to, value, bytes);
}

/* clang copies structs by plain calls, which the linker brings here (--wrap). */
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes);
void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memset(void *to, int value, size_t bytes);

void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        touch(from, bytes, false);
        touch(to, bytes, true);
    }
    return __real_memcpy(to, from, bytes);
}

void *__wrap_memset(void *to, int value, size_t bytes)
{
    if (bytes > 0)
        touch(to, bytes, true);
    return __real_memset(to, value, bytes);
}

/* One pair of functions for each size. */
#define TOUCH(name, bytes, is_write)                                                   \
    void __tsan_##name##bytes(void *address);                                          \
    void __tsan_unaligned_##name##bytes(void *address);                                \
    void __tsan_##name##bytes(void *address)                                           \
    {                                                                                  \
        touch(address, bytes, is_write);                                               \
    }                                                                                  \
    void __tsan_unaligned_##name##bytes(void *address)                                 \
    {                                                                                  \
        touch(address, bytes, is_write);                                               \
    }

TOUCH(read, 1, false)
TOUCH(read, 2, false)
TOUCH(read, 4, false)
TOUCH(read, 8, false)
TOUCH(read, 16, false)
TOUCH(write, 1, true)
TOUCH(write, 2, true)
TOUCH(write, 4, true)
TOUCH(write, 8, true)
TOUCH(write, 16, true)
