/* SPDX-License-Identifier: BSD-3-Clause */
/* slots.c - free lists of slots, oldest and newest at hand. */
#include "stages/slots.h"

#include <assert.h>

#include "stages/arena.h"

bool pst__slots_init(pst_slots *slots, const pst_env *env, size_t first_bytes)
{
    size_t offset;
    *slots = (pst_slots){.env = env};
    return pst__arena_reserve(&slots->bytes, first_bytes, &offset);
}

void pst__slots_fini(pst_slots *slots)
{
    pst_release(slots->env, slots->slot);
    pst_release(slots->env, slots->pool);
    *slots = (pst_slots){.env = slots->env};
}

/* Room for one more element of `size` bytes. */
static bool make_room(const pst_env *env, void **array, uint32_t count, uint32_t *room,
                      size_t size)
{
    if (count < *room)
        return true;
    if (*room > PST__NONE / 4)
        return false;
    const uint32_t more = *room ? 2 * *room : 8;
    void *grown = *array ? pst_grow(env, *array, *room * size, more * size)
                         : pst_allocate_array(env, more, size);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

static bool find_pool(pst_slots *slots, size_t bytes, uint32_t *pool)
{
    const size_t rounded = (bytes + PST__ALIGNMENT - 1) / PST__ALIGNMENT;
    for (*pool = 0; *pool < slots->pool_count; ++*pool)
        if (slots->pool[*pool].bytes == rounded * PST__ALIGNMENT)
            return true;
    void *array = slots->pool;
    if (!make_room(slots->env, &array, slots->pool_count, &slots->pool_room,
                   sizeof *slots->pool))
        return false;
    slots->pool = array;
    slots->pool[slots->pool_count++] = (pst_slot_pool){
        .bytes = rounded * PST__ALIGNMENT, .newest = PST__NONE, .oldest = PST__NONE};
    return true;
}

static void unlink_slot(pst_slots *slots, uint32_t number)
{
    const pst_slot *slot = &slots->slot[number];
    pst_slot_pool *pool = &slots->pool[slot->pool];
    if (slot->older != PST__NONE)
        slots->slot[slot->older].newer = slot->newer;
    else
        pool->oldest = slot->newer;
    if (slot->newer != PST__NONE)
        slots->slot[slot->newer].older = slot->older;
    else
        pool->newest = slot->older;
}

bool pst__slots_take(pst_slots *slots, size_t bytes, uint32_t ended, uint32_t *number)
{
    uint32_t pool;
    *number = PST__NONE;
    if (bytes == 0)
        return true;
    if (bytes > SIZE_MAX - PST__ALIGNMENT || !find_pool(slots, bytes, &pool))
        return false;
    const uint32_t newest = slots->pool[pool].newest;
    const uint32_t oldest = slots->pool[pool].oldest;
    if (newest != PST__NONE && slots->slot[newest].end <= ended)
        *number = newest;
    else if (oldest != PST__NONE && slots->slot[oldest].end <= ended)
        *number = oldest;
    if (*number != PST__NONE) {
        unlink_slot(slots, *number);
        return true;
    }
    void *array = slots->slot;
    if (!make_room(slots->env, &array, slots->count, &slots->room, sizeof *slots->slot))
        return false;
    slots->slot = array;
    pst_slot *fresh = &slots->slot[slots->count];
    *fresh = (pst_slot){.pool = pool, .newer = PST__NONE, .older = PST__NONE};
    if (!pst__arena_reserve(&slots->bytes, bytes, &fresh->offset))
        return false;
    *number = slots->count++;
    return true;
}

void pst__slots_release(pst_slots *slots, uint32_t number, uint32_t end)
{
    if (number == PST__NONE)
        return;
    pst_slot *slot = &slots->slot[number];
    pst_slot_pool *pool = &slots->pool[slot->pool];
    assert((pool->newest == PST__NONE || slots->slot[pool->newest].end <= end) &&
           "ends come in order");
    slot->end = end;
    slot->newer = PST__NONE;
    slot->older = pool->newest;
    if (pool->newest != PST__NONE)
        slots->slot[pool->newest].newer = number;
    else
        pool->oldest = number;
    pool->newest = number;
}
