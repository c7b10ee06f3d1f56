/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c - allocating and giving back a rank's memory. */
#include "stages/arena.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "stages/bind.h"

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
                     int rank, size_t bytes, bool huge)
{
    *arena = (pst_arena){.from_env = (env && env->allocate) || !(topology || huge),
                         .free_bytes = -1};
    if (bytes == 0)
        return true;
    arena->base =
        arena->from_env ? pst_allocate(env, bytes) : pst__bind_map(bytes, huge);
    if (!arena->base)
        return false;
    arena->bytes = bytes;
    if (arena->from_env)
        return true;
    if (huge && !pst__bind_huge(arena->base, bytes))
        arena->huge_error = errno;
    if (topology) {
        arena->bound = pst__topology_bind_memory(topology, rank, arena->base, bytes);
        arena->bind_error = arena->bound ? 0 : errno;
    }
    return true;
}

void pst__arena_touch(pst_arena *arena, const pst_topology *topology, int rank)
{
    if (arena->bytes == 0 || arena->from_env)
        return;
    if (topology && pst__topology_is_here(topology))
        arena->free_bytes =
            pst__bind_free_bytes(pst__topology_numa_node(topology, rank));
    memset(arena->base, 0, arena->bytes);
    if (topology)
        arena->elsewhere =
            !pst__topology_locate(topology, rank, arena->base, arena->bytes,
                                  arena->nodes, sizeof arena->nodes);
}

pst_status pst__arena_refuse(const pst_topology *topology, int rank, const char *what,
                             size_t bytes, pst_error *err)
{
    const int node = topology && pst__topology_is_here(topology)
                         ? pst__topology_numa_node(topology, rank)
                         : -1;
    const long long left = node < 0 ? -1 : pst__bind_free_bytes(node);
    if (left < 0)
        return pst_error_no_memory(err, what, bytes);
    return pst_error_set(
        err, PST_ENOMEM,
        "no memory for %s (%zu bytes); NUMA node %d, near rank %d, has "
        "%lld bytes free",
        what, bytes, node, rank, left);
}

void pst__arena_fini(pst_arena *arena, const pst_env *env)
{
    if (arena->base && arena->from_env)
        pst_release(env, arena->base);
    else if (arena->base)
        pst__bind_unmap(arena->base, arena->bytes);
    *arena = (pst_arena){.from_env = true};
}
