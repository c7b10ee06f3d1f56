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
    pst_ring_slot *slot = pst_allocate_array(env, slots, sizeof *slot);
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
    /* relaxed: nobody else looks, and starting a run publishes all of it. `start` is
     * the count of no message in the first lap: those have start + 1 to start + slots.
     */
    for (uint32_t i = 0; i <= ring->mask; i++)
        atomic_store_explicit(&ring->slot[i].count, start, memory_order_relaxed);
    ring->tail = start;
    pst__ring_clear(ring);
}

void pst__ring_clear(pst_ring *ring)
{
    /* relaxed: as above. What stood in the ring has counts of an earlier lap. */
    atomic_store_explicit(&ring->head, ring->tail, memory_order_relaxed);
    ring->head_seen = ring->tail;
}

bool pst__ring_push(pst_ring *ring, const pst_message *message)
{
    const uint32_t tail = ring->tail;
    if (tail - ring->head_seen >= ring->capacity) {
        /* A2 pairs with R2 in pop: the consumer has read the slot that we reuse. */
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen >= ring->capacity)
            return false;
    }
    pst_ring_slot *slot = &ring->slot[tail & ring->mask];
    slot->message = *message;
    ring->tail = tail + 1;
    /* R1 pairs with A1 in pop: the message, and the buffer it points to, are written
     * before the count. seq_cst and not just release since it is S1 of doorbell.h: the
     * new count precedes our look whether the consumer sleeps. */
    atomic_store_explicit(&slot->count, tail + 1, memory_order_seq_cst);
    return true;
}

bool pst__ring_pop(pst_ring *ring, pst_message *message)
{
    /* relaxed: only this thread writes head. */
    const uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    pst_ring_slot *slot = &ring->slot[head & ring->mask];
    /* A1 pairs with R1 in push: the message is read after the count that covers it. */
    if (atomic_load_explicit(&slot->count, memory_order_acquire) != head + 1)
        return false;
    *message = slot->message;
    /* R2 pairs with A2 in push: the slot is read before it is given back. */
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

bool pst__ring_is_empty(pst_ring *ring)
{
    /* relaxed: only this thread writes head. */
    const uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    /* S4 of doorbell.h: our announcement of sleep precedes this look. */
    return atomic_load_explicit(&ring->slot[head & ring->mask].count,
                                memory_order_seq_cst) != head + 1;
}

/* The message of that number stands in its slot. */
static bool stands(pst_ring *ring, uint32_t number)
{
    /* relaxed: the caller says that nobody pushes or pops. */
    return atomic_load_explicit(&ring->slot[number & ring->mask].count,
                                memory_order_relaxed) == number + 1;
}

bool pst__ring_check(pst_ring *ring)
{
    /* relaxed: as in stands(). */
    const uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (ring->tail - head > ring->capacity || ring->capacity > ring->mask + 1 ||
        head - ring->head_seen > ring->capacity)
        return false;
    for (uint32_t number = head; number != ring->tail; number++)
        if (!stands(ring, number))
            return false;
    return !stands(ring, ring->tail);
}
