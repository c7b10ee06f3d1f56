/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doorbell.h - how a worker that waits for a message falls asleep and is woken.
 *
 * One word for each worker: 0 while it is awake, else 1 + the rank it waits for, so
 * that messages from other ranks let it sleep. The interleaving that would lose a
 * wake-up:
 *
 *     producer, rank a                    consumer
 *     S1  count of slot t = t + 1         S3  word = a + 1
 *     S2  look at word: 0, so do not wake S4  look at that count: old, so it is empty
 *                                         S5  futex_wait(word, a + 1): for ever
 *
 * "S2 reads 0 and S4 reads the old count" is impossible: all four are seq_cst, so they
 * have one order. S1 precedes S2 and S3 precedes S4 in it; if S2 reads 0 then S2
 * precedes S3, hence S1 precedes S4, which reads t + 1. Where S2 reads a + 1 it sets
 * the word to 0 before it wakes, so a consumer between S4 and S5 is sent back by the
 * kernel's own comparison. The flag that ends a run, or the tail of a stream's flow,
 * takes the place of the count in the same proof. tests/stages/test_explore.c tries all
 * interleavings, and all weaker orders.
 */
#ifndef PENSTOCK_STAGES_DOORBELL_H
#define PENSTOCK_STAGES_DOORBELL_H

#include "stages/atomic.h"
#include "stages/thread.h"

typedef struct pst_doorbell {
    pst_atomic_u32 word;
} pst_doorbell;

/* Consumer: say that we are about to sleep. Look for work once more, then sleep. */
static inline void pst__doorbell_arm(pst_doorbell *bell, int sender)
{
    /* seq_cst: S3 */
    atomic_store_explicit(&bell->word, (uint32_t)sender + 1, memory_order_seq_cst);
}

static inline void pst__doorbell_sleep(pst_doorbell *bell, int sender,
                                       uint64_t timeout_ns)
{
    pst__futex_wait(&bell->word, (uint32_t)sender + 1, timeout_ns);
}

/* Consumer: awake again, or there was work after all. */
static inline void pst__doorbell_disarm(pst_doorbell *bell)
{
    /* relaxed: a producer that still reads a + 1 only wakes in vain. */
    atomic_store_explicit(&bell->word, 0, memory_order_relaxed);
}

/* Producer, after its push. */
static inline void pst__doorbell_ring(pst_doorbell *bell, int sender)
{
    /* seq_cst: S2 */
    uint32_t waits_for_us = (uint32_t)sender + 1;
    if (atomic_load_explicit(&bell->word, memory_order_seq_cst) != waits_for_us)
        return;
    /* relaxed, found or not: the message went through the ring; this only keeps a
     * sleeper out. Where the word is another by now, the consumer has been awake since
     * our look, and its next S4 finds the message. */
    if (atomic_compare_exchange_strong_explicit(
            &bell->word, &waits_for_us, 0, memory_order_relaxed, memory_order_relaxed))
        pst__futex_wake(&bell->word, false);
}

/* Anyone, after setting the flag that the consumer looks at: wake it whatever it
 * waits for. Async-signal-safe. */
static inline void pst__doorbell_alarm(pst_doorbell *bell)
{
    /* seq_cst: S2, with the flag in place of the count */
    if (atomic_exchange_explicit(&bell->word, 0, memory_order_seq_cst) != 0)
        pst__futex_wake(&bell->word, false);
}

#endif
