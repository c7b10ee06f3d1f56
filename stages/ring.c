/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c - the queue between two workers: one atomic store a push, one a pop. */
#include "stages/ring.h"

#include <assert.h>

bool pst__ring_init(pst_ring *ring, const pst_env *env, uint32_t capacity)
{
    assert(capacity >= 1 && capacity <= 1u << 30 && "a ring holds 1 to 2^30 messages");
    uint32_t slots = 1;
    while (slots < capacity)
        slots *= 2;
    pst_message *slot = pst_allocate_array(env, slots, sizeof *slot);
    if (!slot)
        return false;
    ring->capacity = capacity;
    ring->mask = slots - 1;
    ring->slot = slot;
    pst__ring_reset(ring, 0);
    return true;
}

void pst__ring_fini(pst_ring *ring, const pst_env *env)
{
    pst_release(env, ring->slot);
    ring->slot = NULL;
}

void pst__ring_reset(pst_ring *ring, uint32_t start)
{
    /* relaxed: nobody else looks, and starting a run publishes all of it. */
    atomic_store_explicit(&ring->tail, start, memory_order_relaxed);
    atomic_store_explicit(&ring->head, start, memory_order_relaxed);
    ring->head_seen = start;
    ring->tail_seen = start;
}

bool pst__ring_push(pst_ring *ring, const pst_message *message)
{
    /* relaxed: only this thread writes tail. */
    const uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen >= ring->capacity) {
        /* A2 pairs with R2 in pop: the consumer has read the slot that we reuse. */
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen >= ring->capacity)
            return false;
    }
    ring->slot[tail & ring->mask] = *message;
    /* R1 pairs with A1 in pop: the slot, and the buffer it points to, are written
     * before the new tail. seq_cst and not just release since it is S1 of doorbell.h:
     * the new tail precedes our look whether the consumer sleeps. */
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_seq_cst);
    return true;
}

bool pst__ring_pop(pst_ring *ring, pst_message *message)
{
    /* relaxed: only this thread writes head. */
    const uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        /* A1 pairs with R1 in push: the slot is read after the tail that covers it. */
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head == ring->tail_seen)
            return false;
    }
    *message = ring->slot[head & ring->mask];
    /* R2 pairs with A2 in push: the slot is read before it is given back. */
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

bool pst__ring_is_empty(pst_ring *ring)
{
    /* relaxed: only this thread writes head. */
    const uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    /* S4 of doorbell.h: our announcement of sleep precedes this look. */
    return head == atomic_load_explicit(&ring->tail, memory_order_seq_cst);
}

bool pst__ring_check(pst_ring *ring)
{
    /* relaxed: the caller says that nobody pushes or pops. */
    const uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    return tail - head <= ring->capacity && ring->capacity <= ring->mask + 1 &&
           head - ring->head_seen <= ring->capacity &&
           tail - ring->tail_seen <= ring->capacity;
}
