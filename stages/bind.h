/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind.h - all calls that place a thread or memory, and those that ask where they are.
 *
 * No other file makes such calls: a test program that defines these functions itself
 * replaces them all, since the linker then leaves bind.c out. `machine` is a loaded
 * hwloc topology; sets of CPUs and nodes are hwloc's, of the system's numbers.
 *
 * Errors: false, and errno says why.
 * Threads: any; they change the calling one only.
 */
#ifndef PENSTOCK_STAGES_BIND_H
#define PENSTOCK_STAGES_BIND_H

#include <stdbool.h>
#include <stddef.h>

struct hwloc_topology;
struct hwloc_bitmap_s;

/* Is `machine` the one that this process runs on? Elsewhere there is nothing to bind.
 */
bool pst__bind_is_here(struct hwloc_topology *machine);

/* The CPUs that the calling thread may use. */
bool pst__bind_cpus(struct hwloc_topology *machine, struct hwloc_bitmap_s *cpus);

/* Bind the calling thread to just these; true only where the kernel then says so. */
bool pst__bind_thread(struct hwloc_topology *machine,
                      const struct hwloc_bitmap_s *cpus);

/* `bytes` > 0 of zeroed memory that nobody has touched, at a multiple of a page, and of
 * a huge one where `huge`; NULL: there is none. */
void *pst__bind_map(size_t bytes, bool huge);
void pst__bind_unmap(void *memory, size_t bytes);

/* Ask for huge pages. False too where the system is set up never to give them. */
bool pst__bind_huge(void *memory, size_t bytes);

/* Has somebody (numactl) told the calling thread where its memory is to be? */
bool pst__bind_has_policy(struct hwloc_topology *machine);

/* Pages from there are to come from `nodes` first, and from elsewhere when those are
 * short: the kernel would end a process that insists. */
bool pst__bind_memory(struct hwloc_topology *machine, const void *memory, size_t bytes,
                      const struct hwloc_bitmap_s *nodes);

/* The nodes on which the pages touched so far are. */
bool pst__bind_nodes(struct hwloc_topology *machine, const void *memory, size_t bytes,
                     struct hwloc_bitmap_s *nodes);

/* What nobody uses of the node, by the system's number; -1: unknown. */
long long pst__bind_free_bytes(int node);

#endif
