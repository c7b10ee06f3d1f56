/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.c - loading the machine with hwloc, placing and binding ranks. */
#include "stages/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <string.h>

#include "stages/thread.h"

struct pst_topology {
    pst_env env;
    hwloc_topology_t hwloc;
    hwloc_bitmap_t allowed; /* the process's affinity                          */
    int ranks;
    int cores;
    hwloc_obj_type_t core_type; /* PU on machines that know no cores           */
};

/* What one rank is bound to: a whole core, or one of its PUs. */
static hwloc_obj_t place_of(const pst_topology *topology, int rank)
{
    const int cores = topology->cores;
    const int ranks = topology->ranks;
    if (ranks <= cores)
        return hwloc_get_obj_by_type(topology->hwloc, topology->core_type,
                                     (unsigned)rank);
    /* ranks i with i * cores / ranks = c share core c */
    const long long c = (long long)rank * cores / ranks;
    const long long first = (c * ranks + cores - 1) / cores;
    const long long next = ((c + 1) * ranks + cores - 1) / cores;
    hwloc_obj_t core =
        hwloc_get_obj_by_type(topology->hwloc, topology->core_type, (unsigned)c);
    const int threads = hwloc_get_nbobjs_inside_cpuset_by_type(
        topology->hwloc, core->cpuset, HWLOC_OBJ_PU);
    if (next - first > threads)
        return core;
    return hwloc_get_obj_inside_cpuset_by_type(topology->hwloc, core->cpuset,
                                               HWLOC_OBJ_PU, (unsigned)(rank - first));
}

static pst_status describe(pst_topology *topology, const char *synthetic,
                           const char *xml, pst_error *err)
{
    if (synthetic && xml)
        return pst_error_set(err, PST_EINVAL,
                             "a synthetic topology and an XML topology were both "
                             "given; one of them would work");
    if (synthetic && hwloc_topology_set_synthetic(topology->hwloc, synthetic) != 0)
        return pst_error_set(err, PST_EINVAL,
                             "topology '%s' is not hwloc's synthetic form; the levels "
                             "go from the root to 'pu', as in 'pack:2 core:4 pu:2'",
                             synthetic);
    if (xml && hwloc_topology_set_xml(topology->hwloc, xml) != 0)
        return pst_error_set(err, PST_EINVAL,
                             "topology file %s cannot be read as hwloc XML; "
                             "'lstopo FILE.xml' writes such a file",
                             xml);
    return PST_OK;
}

static pst_status load(pst_topology *topology, const char *synthetic, const char *xml,
                       pst_error *err)
{
    const bool described = synthetic || xml;
    if (hwloc_get_api_version() >> 16 != HWLOC_API_VERSION >> 16)
        return pst_error_set(err, PST_ESYSTEM,
                             "hwloc %u was loaded, and %u is what this was built with",
                             hwloc_get_api_version() >> 16, HWLOC_API_VERSION >> 16);
    if (hwloc_topology_init(&topology->hwloc) != 0)
        return pst_error_no_memory(err, "the topology", 0);
    pst_status status = describe(topology, synthetic, xml, err);
    if (status != PST_OK)
        return status;
    unsigned long flags =
        HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
        HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
    /* A described machine is taken for this one, so that binding to it is tried. */
    flags |= HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM;
    if (!described)
        flags |= HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING;
    if (hwloc_topology_set_flags(topology->hwloc, flags) != 0 ||
        hwloc_topology_load(topology->hwloc) != 0)
        return pst_error_set(err, described ? PST_EINVAL : PST_ESYSTEM,
                             "hwloc cannot load the topology%s%s: %s",
                             described ? " " : "",
                             synthetic ? synthetic
                             : xml     ? xml
                                       : "",
                             strerror(errno));
    return PST_OK;
}

pst_status pst__topology_create(const pst_env *env, const char *synthetic,
                                const char *xml, int ranks, pst_topology **out,
                                pst_error *err)
{
    pst_topology *topology = pst_allocate(env, sizeof *topology);
    if (!topology)
        return pst_error_no_memory(err, "the topology", sizeof *topology);
    if (env)
        topology->env = *env;
    topology->ranks = ranks;
    pst_status status = load(topology, synthetic, xml, err);
    if (status != PST_OK)
        goto out;
    topology->allowed = hwloc_bitmap_alloc();
    if (!topology->allowed) {
        status = pst_error_no_memory(err, "the topology", 0);
        goto out;
    }
    if (hwloc_get_cpubind(topology->hwloc, topology->allowed, 0) != 0)
        hwloc_bitmap_fill(topology->allowed);
    topology->core_type = HWLOC_OBJ_CORE;
    topology->cores = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_CORE);
    if (topology->cores < 1) {
        topology->core_type = HWLOC_OBJ_PU;
        topology->cores = hwloc_get_nbobjs_by_type(topology->hwloc, HWLOC_OBJ_PU);
    }
    if (topology->cores < 1)
        status = pst_error_set(err, PST_ESYSTEM, "hwloc finds no CPU in the topology");
out:
    if (status == PST_OK)
        *out = topology;
    else
        pst__topology_destroy(topology);
    return status;
}

void pst__topology_destroy(pst_topology *topology)
{
    if (!topology)
        return;
    const pst_env env = topology->env;
    hwloc_bitmap_free(topology->allowed);
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    pst_release(&env, topology);
}

char *pst__topology_cpus(const pst_topology *topology, int rank, char *text,
                         size_t size)
{
    hwloc_bitmap_list_snprintf(text, size, place_of(topology, rank)->cpuset);
    return text;
}

static hwloc_obj_t node_of(const pst_topology *topology, int rank)
{
    hwloc_const_nodeset_t nodes = place_of(topology, rank)->nodeset;
    const int first = nodes ? hwloc_bitmap_first(nodes) : -1;
    if (first < 0)
        return NULL;
    return hwloc_get_numanode_obj_by_os_index(topology->hwloc, (unsigned)first);
}

int pst__topology_numa_node(const pst_topology *topology, int rank)
{
    hwloc_obj_t node = node_of(topology, rank);
    return node ? (int)node->logical_index : -1;
}

bool pst__topology_bind(const pst_topology *topology, int rank)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (!set) {
        errno = ENOMEM;
        return false;
    }
    bool bound = false;
    hwloc_bitmap_and(set, place_of(topology, rank)->cpuset, topology->allowed);
    if (hwloc_bitmap_iszero(set)) {
        errno = EINVAL;
    } else if (hwloc_set_cpubind(topology->hwloc, set,
                                 HWLOC_CPUBIND_THREAD | HWLOC_CPUBIND_STRICT) == 0) {
        /* For a machine that is not this one hwloc says yes and does nothing. */
        char wanted[256];
        char got[256];
        hwloc_bitmap_list_snprintf(wanted, sizeof wanted, set);
        bound = strcmp(wanted, pst__thread_cpus(got, sizeof got)) == 0;
        if (!bound)
            errno = ENOSYS;
    }
    const int reason = errno;
    hwloc_bitmap_free(set);
    errno = reason;
    return bound;
}

void *pst__topology_allocate(const pst_topology *topology, int rank, size_t bytes)
{
    hwloc_obj_t node = node_of(topology, rank);
    void *memory;
    /* Not strict: where the system cannot bind memory it is merely allocated. */
    if (node)
        memory = hwloc_alloc_membind(topology->hwloc, bytes, node->nodeset,
                                     HWLOC_MEMBIND_BIND,
                                     HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_NOCPUBIND);
    else
        memory = hwloc_alloc(topology->hwloc, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void pst__topology_release(const pst_topology *topology, void *memory, size_t bytes)
{
    hwloc_free(topology->hwloc, memory, bytes);
}
