/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots.h - which buffer of one rank stands where, decided before a run.
 *
 * A slot is in use from the action that takes it until an action of the owning rank,
 * which it learns of by pst__slots_release(). Released slots of one size stand in a
 * list, oldest first; since the owner's actions are walked in order, so are the ends.
 * A taker gets the newest if it may (its memory is warm), else the oldest if it may,
 * else a new one.
 */
#ifndef PENSTOCK_STAGES_SLOTS_H
#define PENSTOCK_STAGES_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>

#define PST__NONE UINT32_MAX

typedef struct pst_slot {
    size_t offset;
    uint32_t pool;
    uint32_t end;   /* actions of the owner that must have ended before it is reused */
    uint32_t newer; /* in its pool's list                                      */
    uint32_t older;
} pst_slot;

/* The free slots of one size. */
typedef struct pst_slot_pool {
    size_t bytes;
    uint32_t newest;
    uint32_t oldest;
} pst_slot_pool;

typedef struct pst_slots {
    const pst_env *env; /* borrowed                                            */
    pst_slot *slot;
    uint32_t count;
    uint32_t room;
    pst_slot_pool *pool;
    uint32_t pool_count;
    uint32_t pool_room;
    size_t bytes; /* of everything up to now                                   */
} pst_slots;

/* `first_bytes` stand before all slots. False: that overflows. */
bool pst__slots_init(pst_slots *slots, const pst_env *env, size_t first_bytes);
void pst__slots_fini(pst_slots *slots);

/*
 * A slot of `bytes` for an action that starts after at least `ended` actions of the
 * owner have ended; PST__NONE into *number where bytes is 0. False: no memory.
 */
bool pst__slots_take(pst_slots *slots, size_t bytes, uint32_t ended, uint32_t *number);

/* The owner's first `end` actions include the last that uses it. PST__NONE allowed. */
void pst__slots_release(pst_slots *slots, uint32_t number, uint32_t end);

#endif
