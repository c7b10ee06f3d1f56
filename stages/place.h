/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place.h - which CPUs of a machine each rank is for. Pure: binds nothing.
 *
 * Ranks stand in the order of the tree, so that ranks r and r + 1 are as near as can
 * be. What counts is the usable CPUs; a core is one that has any, and is then just
 * those.
 *
 *  1. As many ranks as cores or fewer: a whole core for each. They are packed, not
 *     spread: from the root down always the smallest object that holds all ranks, or
 *     else as few of its children as do, each filled before the next. So a pipeline
 *     crosses as few sockets, nodes and caches as its length allows, and other jobs
 *     keep the rest. Who wants more memory channels instead gives a list.
 *  2. More ranks: each core has its first rank before any has a second on its next
 *     hyperthread, and so on. With more ranks than CPUs, every CPU has its share and
 *     what remains goes the same way. What does not fill a round is spread evenly.
 *  3. Of a core's ranks: one has the whole core; no more than its CPUs have one each.
 *     With more ranks than CPUs each has all CPUs that share its share's cache, or else
 *     its socket or memory: while a pipeline fills and drains few of its ranks have
 *     work, and the system must be able to spread them. (With `whole_cores` it has the
 *     core all the same.)
 *  4. Where cores are of several types (hwloc's CPU kinds that name a type or a
 *     capacity, not only a frequency), the fastest come first in 1.
 *  5. A team of k cores a rank takes places as k ranks do, one after the other, but in
 * 1 does not reach from one shared cache (or socket) into the next where all teams have
 * room without that; what is left over there stays free.
 *
 *     pack:2 core:4 pu:2        p = 3   0-1 2-3 4-5
 *                               p = 6   0-1 2-3 4-5 6-7 | 8-9 10-11
 *                               p = 9   0 1 2-3 4-5 6-7 | 8-9 10-11 12-13 14-15
 */
#ifndef PENSTOCK_STAGES_PLACE_H
#define PENSTOCK_STAGES_PLACE_H

#include <stdbool.h>

#include <penstock/env.h>
#include <penstock/error.h>

struct hwloc_topology;
struct hwloc_bitmap_s;

typedef struct pst_place {
    struct hwloc_bitmap_s *cpus;  /* the system's numbers; never empty           */
    struct hwloc_bitmap_s *nodes; /* the memory nearest to them                  */
    int core;                     /* hwloc's logical index of the first; -1: none */
} pst_place;

/*
 * How many cores each of `ranks` ranks can have so that no team reaches from one shared
 * cache into the next; at least 1. Errors: as below.
 */
pst_status pst__places_team(const pst_env *env, struct hwloc_topology *machine,
                            const struct hwloc_bitmap_s *usable, int ranks, int *team,
                            pst_error *err);

/*
 * Places for `ranks` teams of `team` on the `usable` CPUs of `machine`, member after
 * member; with `whole_cores`, those that share a core all have all of it.
 * Owns:   places[ranks * team], zeroed before, whose sets are then the caller's, also
 * after an error: pst__places_fini(). Errors: PST_ENOMEM; PST_ESYSTEM where no CPU is
 * usable.
 */
pst_status pst__places_choose(const pst_env *env, struct hwloc_topology *machine,
                              const struct hwloc_bitmap_s *usable, bool whole_cores,
                              int ranks, int team, pst_place *places, pst_error *err);

/*
 * Places as a list gives them: "0,2,4-5" one CPU a rank; "0-1:2-3" all CPUs of each
 * rank, with ':' between ranks. For one rank the whole list is its place. Errors: also
 * PST_EINVAL: the list's form, another number of ranks, a CPU that the machine does not
 * have or that is not usable.
 */
pst_status pst__places_parse(const char *list, struct hwloc_topology *machine,
                             const struct hwloc_bitmap_s *usable, int ranks,
                             pst_place *places, pst_error *err);

void pst__places_fini(pst_place *places, int ranks);

#endif
