/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology.h - the machine, and the place of each rank on it.
 *
 * Ranks stand on cores in the order in which the cores stand in the machine, so that
 * neighbours in the pipeline are neighbours in caches and memory. One worker to a core
 * before hyperthreads; with more ranks than cores, contiguous groups share a core.
 * This file alone knows hwloc.
 *
 * Threads: changed by none after it was made; any number may read it.
 */
#ifndef PENSTOCK_STAGES_TOPOLOGY_H
#define PENSTOCK_STAGES_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/env.h>
#include <penstock/error.h>

typedef struct pst_topology pst_topology;

/*
 * Load this machine, as far as the process's affinity allows it, or the one that is
 * described (at most one of `synthetic`, hwloc's form, and `xml`, a file, is not NULL),
 * and place `ranks` ranks. `synthetic` and `xml` may have CPUs that are not here: then
 * binding to them is refused.
 * Errors: PST_EINVAL (the description), PST_ENOMEM, PST_ESYSTEM.
 */
pst_status pst__topology_create(const pst_env *env, const char *synthetic,
                                const char *xml, int ranks, pst_topology **out,
                                pst_error *err);
void pst__topology_destroy(pst_topology *topology);

/* The CPUs of rank's place as a list of OS numbers, cut to `size`; returns text. */
char *pst__topology_cpus(const pst_topology *topology, int rank, char *text,
                         size_t size);

/* hwloc's logical index of the memory nearest to rank's place; -1: unknown. */
int pst__topology_numa_node(const pst_topology *topology, int rank);

/* Bind the calling thread to rank's place, within the process's affinity. False: it was
 * refused, and errno says why. */
bool pst__topology_bind(const pst_topology *topology, int rank);

/* `bytes` > 0 of zeroed memory near rank's place, page-aligned; NULL: no memory. */
void *pst__topology_allocate(const pst_topology *topology, int rank, size_t bytes);
void pst__topology_release(const pst_topology *topology, void *memory, size_t bytes);

#endif
