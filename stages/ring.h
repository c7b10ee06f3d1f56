/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - queue of messages from one worker to one other.
 *
 * One thread pushes and one pops. A message is copied; the buffer it points to is
 * handed over: the producer may not touch it again. Counters run freely and wrap;
 * only tail - head has meaning. Message number n stands in slot n modulo slots, and
 * says so by the slot's own count, n + 1: one cache line carries the message and the
 * word that a consumer waits for, so that a hop moves one line and not three.
 *
 *         head            tail
 *          v               v
 *     . . [m] [m] [m] [m] . . . .        head .. tail - 1 wait to be popped
 *
 * Invariants (pst__ring_check, when nobody pushes or pops):
 *   I1  tail - head <= capacity, as an unsigned difference
 *   I2  slots head .. tail - 1 belong to the consumer, all others to the producer
 *   I3  what the producer has seen of head is not ahead of it
 *   I4  slot n has the count n + 1 for n in head .. tail - 1, and not for n = tail
 */
#ifndef PENSTOCK_STAGES_RING_H
#define PENSTOCK_STAGES_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>

#include "stages/atomic.h"

/* What stands in a ring: whose data, how much, and where. */
typedef struct pst_message {
    uint32_t microbatch;
    uint16_t stage;    /* that receives it                                     */
    uint8_t direction; /* enum pst_direction, in channel.h                     */
    int64_t iteration;
    size_t bytes;
    void *data; /* in the receiver's arena; NULL where stages pass nothing */
} pst_message;

typedef struct pst_ring_slot {
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 count; /* the producer writes it */
    pst_message message;
} pst_ring_slot;

typedef struct pst_ring {
    _Alignas(PST__CACHE_LINE) uint32_t tail;       /* the producer's alone     */
    uint32_t head_seen;                            /* the producer's alone     */
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 head; /* the consumer writes it   */
    _Alignas(PST__CACHE_LINE) uint32_t capacity;   /* from here: never changes */
    uint32_t mask;                                 /* slots - 1                */
    pst_ring_slot *slot;
} pst_ring;

/* Room for `capacity` messages (1 .. 2^30). False: no memory. Owned by the ring. */
bool pst__ring_init(pst_ring *ring, const pst_env *env, uint32_t capacity);
void pst__ring_fini(pst_ring *ring, const pst_env *env);

/* Empty it, with its counters at `start`. Nobody pushes or pops meanwhile. */
void pst__ring_reset(pst_ring *ring, uint32_t start);

/* Empty it; its counters go on, and no slot is touched. As above. */
void pst__ring_clear(pst_ring *ring);

/* Producer: false where it is full. */
bool pst__ring_push(pst_ring *ring, const pst_message *message);

/* Consumer: false where it is empty. */
bool pst__ring_pop(pst_ring *ring, pst_message *message);

/* Consumer, about to sleep: see doorbell.h. */
bool pst__ring_is_empty(pst_ring *ring);

bool pst__ring_check(pst_ring *ring);

#endif
