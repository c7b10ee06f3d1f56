/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h - the ring of a stream: tokens from one worker to one other.
 *
 * As ring.h's, with two differences that make it several times as fast for tokens of
 * nothing: a token has 16 bytes, and no push or pop waits for its store to be seen.
 *
 * Where both workers have next to nothing to do for a token, a consumer that looks at
 * `tail` for each would take its cache line away from the producer for each, and the
 * line's travels would set the pace. So it looks first at `batch`, which is stored
 * every few tens of tokens, and at `tail` when that has not moved for a moment.
 *
 * A push is a release store, visible to a consumer that is awake at once, and then a
 * look at the consumer's doorbell, so that one that sleeps is woken at once too. But
 * that look may overtake the store. The proof in doorbell.h wants them in order, and
 * order between a store and a later load is what costs. So it is made good later:
 * settling stores the same tail once more, as S1, and looks once more, as S2. A worker
 * settles before it waits, and after some tens of tokens. Until then only a consumer
 * that fell asleep in the very moment of a push may have missed it: its first sleep is
 * a nap for that reason (stream_worker.c). Pops and the producer's sleep for want of
 * room are the same with head in place of tail.
 *
 * Counters run freely and wrap. Invariants: as I1 to I3 in ring.h.
 */
#ifndef PENSTOCK_STAGES_FLOW_H
#define PENSTOCK_STAGES_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>

#include "stages/atomic.h"
#include "stages/doorbell.h"

/* What a worker sleeps for: takes the place of the sender in doorbell.h. */
enum { PST__FOR_INPUT, PST__FOR_ROOM };

typedef struct pst_token {
    void *data;
    uint64_t number; /* and the flags below                                    */
} pst_token;

#define PST__HOLE   (UINT64_C(1) << 63) /* an item that was dropped, keeping its turn */
#define PST__END    (UINT64_C(1) << 62) /* no more tokens                      */
#define PST__NUMBER (PST__END - 1)

enum { PST__FETCH_AHEAD = 64 }; /* tokens: made in what a few cache misses take  */

typedef struct pst_flow {
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 tail;  /* the producer writes it   */
    uint32_t head_seen;                             /* the producer's alone     */
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 batch; /* tail when last settled   */
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 head;  /* the consumer writes it   */
    uint32_t tail_seen;                             /* the consumer's alone     */
    _Alignas(PST__CACHE_LINE) uint32_t capacity;    /* from here: never changes */
    uint32_t mask;                                  /* slots - 1                */
    pst_token *slot;
    pst_doorbell *producer;
    pst_doorbell *consumer;
} pst_flow;

/* Room for `capacity` tokens (1 .. 2^30). False: no memory. */
bool pst__flow_init(pst_flow *flow, const pst_env *env, uint32_t capacity,
                    pst_doorbell *producer, pst_doorbell *consumer);
void pst__flow_fini(pst_flow *flow, const pst_env *env);

/* Empty it, with its counters at `start`. Nobody pushes or pops meanwhile. */
void pst__flow_reset(pst_flow *flow, uint32_t start);

bool pst__flow_check(pst_flow *flow);

/* ---- the producer ---------------------------------------------------------- */

/* How many tokens wait, by a fresh look at the consumer. */
static inline uint32_t pst__flow_depth(pst_flow *flow)
{
    /* A2 pairs with R2 in pop: the consumer has read the slots that we reuse. seq_cst
     * and not just acquire since it is S4 of doorbell.h when we are about to sleep. */
    flow->head_seen = atomic_load_explicit(&flow->head, memory_order_seq_cst);
    /* relaxed: only this thread writes tail. */
    return atomic_load_explicit(&flow->tail, memory_order_relaxed) - flow->head_seen;
}

static inline bool pst__flow_has_room(pst_flow *flow)
{
    /* relaxed: only this thread writes tail. */
    const uint32_t tail = atomic_load_explicit(&flow->tail, memory_order_relaxed);
    return tail - flow->head_seen < flow->capacity ||
           pst__flow_depth(flow) < flow->capacity;
}

/* Is it worth going on, for a producer that had to wait? */
static inline bool pst__flow_has_much_room(pst_flow *flow)
{
    return pst__flow_depth(flow) <= flow->capacity / 2;
}

/* There must be room. */
static inline void pst__flow_push(pst_flow *flow, pst_token token)
{
    /* relaxed: only this thread writes tail. */
    const uint32_t tail = atomic_load_explicit(&flow->tail, memory_order_relaxed);
    flow->slot[tail & flow->mask] = token;
    /* The consumer's core has the cache lines that come next. Those that it may be
     * reading are left to it. */
    if (tail + PST__FETCH_AHEAD - flow->head_seen < flow->capacity)
        pst__fetch_to_write(&flow->slot[(tail + PST__FETCH_AHEAD) & flow->mask]);
    /* R1 pairs with A1 in peek: the slot, and what the token points to, are written
     * before the new tail. */
    atomic_store_explicit(&flow->tail, tail + 1, memory_order_release);
}

static inline void pst__flow_settle_tail(pst_flow *flow)
{
    /* relaxed: only this thread writes tail. */
    const uint32_t tail = atomic_load_explicit(&flow->tail, memory_order_relaxed);
    /* release: pairs with A3 in look_for_batch, as R1. */
    atomic_store_explicit(&flow->batch, tail, memory_order_release);
    /* S1 of doorbell.h. */
    atomic_store_explicit(&flow->tail, tail, memory_order_seq_cst);
    pst__doorbell_ring(flow->consumer, PST__FOR_INPUT);
}

/* ---- the consumer ---------------------------------------------------------- */

/* Tokens that are known to wait, without a look at the producer. */
static inline uint32_t pst__flow_known(const pst_flow *flow)
{
    /* relaxed: only this thread writes head. */
    return flow->tail_seen - atomic_load_explicit(&flow->head, memory_order_relaxed);
}

/* Look how many wait, as far as the producer has settled. */
static inline uint32_t pst__flow_look_for_batch(pst_flow *flow)
{
    /* A3 pairs with the release in settle_tail, as A1 with R1. */
    const uint32_t batch = atomic_load_explicit(&flow->batch, memory_order_acquire);
    /* What a look at tail has seen may be more. */
    if ((int32_t)(batch - flow->tail_seen) > 0)
        flow->tail_seen = batch;
    return pst__flow_known(flow);
}

/* Look how many wait. */
static inline uint32_t pst__flow_look(pst_flow *flow)
{
    /* A1 pairs with R1 in push: the slots are read after the tail that covers them.
     * seq_cst and not just acquire since it is S4 of doorbell.h when we are about to
     * sleep. */
    flow->tail_seen = atomic_load_explicit(&flow->tail, memory_order_seq_cst);
    return pst__flow_known(flow);
}

/* The oldest token, until it is popped; NULL: none. */
static inline const pst_token *pst__flow_peek(pst_flow *flow)
{
    if (pst__flow_known(flow) == 0 && pst__flow_look(flow) == 0)
        return NULL;
    /* relaxed: only this thread writes head. */
    return &flow->slot[atomic_load_explicit(&flow->head, memory_order_relaxed) &
                       flow->mask];
}

/* Give back the slot of the token that was peeked at. */
static inline void pst__flow_pop(pst_flow *flow)
{
    /* relaxed: only this thread writes head. */
    const uint32_t head = atomic_load_explicit(&flow->head, memory_order_relaxed);
    /* R2 pairs with A2 in depth: the slot is read before it is given back. */
    atomic_store_explicit(&flow->head, head + 1, memory_order_release);
}

/* At most half of it is left, so waking a producer is worth it. */
static inline bool pst__flow_is_low(const pst_flow *flow)
{
    return pst__flow_known(flow) <= flow->capacity / 2;
}

static inline void pst__flow_settle_head(pst_flow *flow)
{
    /* relaxed: only this thread writes head. */
    const uint32_t head = atomic_load_explicit(&flow->head, memory_order_relaxed);
    /* S1 of doorbell.h, with head in place of tail. */
    atomic_store_explicit(&flow->head, head, memory_order_seq_cst);
    if (pst__flow_is_low(flow))
        pst__doorbell_ring(flow->producer, PST__FOR_ROOM);
}

#endif
