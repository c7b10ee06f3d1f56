/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena.h - memory of one rank, near its worker, carved up before it is allocated.
 *
 * Two for each rank. The resident one is made with the pipeline and keeps its contents:
 *
 *     | weights | gradients | optimizer | weights | gradients | optimizer | ...
 *       stage s                           the rank's next stage
 *
 * The working one holds what one run needs, is as large as the largest loaded program
 * needs, and may be replaced between runs:
 *
 *     | scratch | slot 0 | slot 1 | slot 2 | ...           (footprint.h numbers slots)
 *
 * Everything starts at a multiple of 64 bytes. First reserve, which only counts; then
 * allocate once; then ask for addresses by offset.
 */
#ifndef PENSTOCK_STAGES_ARENA_H
#define PENSTOCK_STAGES_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/env.h>

#include "stages/topology.h"

enum { PST__ALIGNMENT = 64 };

typedef struct pst_arena {
    char *base;
    size_t bytes;
    bool from_env;        /* else mapped for itself                            */
    bool bound;           /* its pages come from the rank's nearest node       */
    bool elsewhere;       /* some touched page does not                        */
    int bind_error;       /* errno of a refusal; 0: none                       */
    int huge_error;       /* as above, for huge pages                          */
    long long free_bytes; /* of the node before it was touched; -1: unknown    */
    char nodes[32];       /* that the touched pages are on; "": unknown        */
} pst_arena;

/* Add `bytes`, rounded up to a multiple of 64, to *total; its offset goes to *offset.
 * False: that overflows. */
bool pst__arena_reserve(size_t *total, size_t bytes, size_t *offset);

/*
 * `bytes` of zeroed memory for `rank`: the env's where it brings an allocator; else
 * with pages, huge ones where `huge`, that come from the NUMA node of the rank's place.
 * topology NULL: from anywhere. False: no memory; the arena is then empty. bytes may be
 * 0.
 */
bool pst__arena_init(pst_arena *arena, const pst_env *env, const pst_topology *topology,
                     int rank, size_t bytes, bool huge);

/* Write to every page, so that all are there, and see where they are. For a thread at
 * rank's place: where binding was refused or left to others, first touch decides. */
void pst__arena_touch(pst_arena *arena, const pst_topology *topology, int rank);

/* PST_ENOMEM: no `bytes` for `what` ("the weights of a rank"); the text names the node
 * that they were wanted on and what it has. */
pst_status pst__arena_refuse(const pst_topology *topology, int rank, const char *what,
                             size_t bytes, pst_error *err);

void pst__arena_fini(pst_arena *arena, const pst_env *env);

#endif
