/* SPDX-License-Identifier: BSD-3-Clause */
/* place.c - binding a worker, and remembering where it is. */
#include "stages/place.h"

#include <errno.h>
#include <string.h>

#include "stages/thread.h"

void pst__place_take(const pst_env *env, const pst_topology *topology, int rank,
                     pst_worker_info *info)
{
    info->thread_id = pst__thread_id();
    info->numa_node = -1;
    if (topology) {
        info->numa_node = pst__topology_numa_node(topology, rank);
        info->bound = pst__topology_bind(topology, rank);
        if (!info->bound) {
            char place[64];
            pst_log(env, PST_LOG_WARNING,
                    "rank %d could not be bound to CPU %s: %s; it runs where the "
                    "system puts it",
                    rank, pst__topology_cpus(topology, rank, place, sizeof place),
                    strerror(errno));
        }
    }
    pst__thread_cpus(info->cpus, sizeof info->cpus);
}
