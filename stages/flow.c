/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.c - making, emptying and checking a stream's ring. */
#include "stages/flow.h"

#include <assert.h>

bool pst__flow_init(pst_flow *flow, const pst_env *env, uint32_t capacity,
                    pst_doorbell *producer, pst_doorbell *consumer)
{
    assert(capacity >= 1 && capacity <= 1u << 30 && "a flow holds 1 to 2^30 tokens");
    uint32_t slots = 1;
    while (slots < capacity)
        slots *= 2;
    pst_token *slot = pst_allocate_array(env, slots, sizeof *slot);
    if (!slot)
        return false;
    flow->capacity = capacity;
    flow->mask = slots - 1;
    flow->slot = slot;
    flow->producer = producer;
    flow->consumer = consumer;
    pst__flow_reset(flow, 0);
    return true;
}

void pst__flow_fini(pst_flow *flow, const pst_env *env)
{
    pst_release(env, flow->slot);
    flow->slot = NULL;
}

void pst__flow_reset(pst_flow *flow, uint32_t start)
{
    /* relaxed: nobody else looks, and starting a run publishes all of it. */
    atomic_store_explicit(&flow->tail, start, memory_order_relaxed);
    atomic_store_explicit(&flow->batch, start, memory_order_relaxed);
    atomic_store_explicit(&flow->head, start, memory_order_relaxed);
    flow->head_seen = start;
    flow->tail_seen = start;
}

bool pst__flow_check(pst_flow *flow)
{
    /* relaxed: the caller says that nobody pushes or pops. */
    const uint32_t tail = atomic_load_explicit(&flow->tail, memory_order_relaxed);
    const uint32_t head = atomic_load_explicit(&flow->head, memory_order_relaxed);
    return tail - head <= flow->capacity && flow->capacity <= flow->mask + 1 &&
           head - flow->head_seen <= flow->capacity &&
           tail - flow->tail_seen <= flow->capacity;
}
