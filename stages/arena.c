/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c - allocating and giving back a rank's memory. */
#include "stages/arena.h"

#include <stdint.h>

bool pst__arena_reserve(size_t *total, size_t bytes, size_t *offset)
{
    if (bytes > SIZE_MAX - (PST__ALIGNMENT - 1))
        return false;
    bytes = (bytes + PST__ALIGNMENT - 1) / PST__ALIGNMENT * PST__ALIGNMENT;
    if (bytes > SIZE_MAX - *total)
        return false;
    *offset = *total;
    *total += bytes;
    return true;
}

bool pst__arena_init(pst_arena *arena, const pst_env *env, const pst_topology *topology,
                     int rank, size_t bytes)
{
    *arena = (pst_arena){.from_env = !topology || (env && env->allocate)};
    if (bytes == 0)
        return true;
    arena->base = arena->from_env ? pst_allocate(env, bytes)
                                  : pst__topology_allocate(topology, rank, bytes);
    if (!arena->base)
        return false;
    arena->bytes = bytes;
    return true;
}

void pst__arena_fini(pst_arena *arena, const pst_env *env, const pst_topology *topology)
{
    if (arena->base && arena->from_env)
        pst_release(env, arena->base);
    else if (arena->base)
        pst__topology_release(topology, arena->base, arena->bytes);
    *arena = (pst_arena){.from_env = true};
}
