/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology.h - the machine, and the place of each rank on it (place.h has the rule).
 *
 * The machine is this one, or one that is described; hwloc's own variables
 * (HWLOC_XMLFILE, HWLOC_SYNTHETIC) count as a description. On a described machine ranks
 * have places and nothing is bound, unless hwloc is told that it is this one
 * (HWLOC_THISSYSTEM=1). Usable are the CPUs that are online and that the process's
 * affinity and its cgroup allow.
 *
 * Threads: changed by none after it was made; any number may read it.
 */
#ifndef PENSTOCK_STAGES_TOPOLOGY_H
#define PENSTOCK_STAGES_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/pipeline.h>

typedef struct pst_topology pst_topology;

typedef struct pst_topology_options {
    const char *synthetic; /* hwloc's form                                     */
    const char *xml;       /* a file; at most one of both is not NULL          */
    pst_bind bind;         /* not PST_BIND_NONE                                */
    const char *cpus;      /* of PST_BIND_LIST                                 */
    int ranks;
    int team; /* cores of each rank, at least 1                                 */
} pst_topology_options;

/* Errors: PST_EINVAL (the description, the list), PST_ENOMEM, PST_ESYSTEM. */
pst_status pst__topology_create(const pst_env *env, const pst_topology_options *options,
                                pst_topology **out, pst_error *err);
void pst__topology_destroy(pst_topology *topology);

/* Is this the machine that the process runs on, so that binding means something? */
bool pst__topology_is_here(const pst_topology *topology);

/*
 * Cores that each of options->ranks ranks can have, at least 1: on the usable ones that
 * share a cache, or where there is a list on those of the smallest place in it.
 * options->team is not used. Errors: as pst__topology_create().
 */
pst_status pst__topology_team(const pst_env *env, const pst_topology_options *options,
                              int *team, pst_error *err);

/* The CPUs of rank's place, which is that of its whole team, as a list of OS numbers,
 * cut to `size`; returns text. */
char *pst__topology_cpus(const pst_topology *topology, int rank, char *text,
                         size_t size);

/* hwloc's logical index of the first core there; -1: the machine knows no cores. */
int pst__topology_core(const pst_topology *topology, int rank);

/* The OS number of the NUMA node nearest to rank's place; -1: unknown. */
int pst__topology_numa_node(const pst_topology *topology, int rank);

/* Bind the calling thread to the place of a member of rank's team. False: it was
 * refused, and errno says why; 0 where the machine is not this one and nothing was
 * tried. */
bool pst__topology_bind(const pst_topology *topology, int rank, int member);

/*
 * Let pages of `memory` that are touched from now on come from rank's nearest node.
 * Where somebody set a memory policy before (numactl) that one stays, and the first
 * touch decides within it. False: as above; errno 0 where nothing was tried.
 */
bool pst__topology_bind_memory(const pst_topology *topology, int rank,
                               const void *memory, size_t bytes);

/* On which nodes the touched pages are, as a list in text ("" where that is unknown),
 * cut to `size`. False: some are not on rank's nearest one. */
bool pst__topology_locate(const pst_topology *topology, int rank, const void *memory,
                          size_t bytes, char *text, size_t size);

#endif
