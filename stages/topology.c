/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.c - loading the machine with hwloc, and what its places are asked. */
#include "stages/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <string.h>

#include "stages/bind.h"
#include "stages/place.h"

struct pst_topology {
    pst_env env;
    hwloc_topology_t hwloc;
    hwloc_bitmap_t usable;
    bool here;       /* the machine is this one                                */
    bool has_policy; /* of memory, set by somebody else                        */
    int ranks;
    int team;
    pst_place *places;  /* [ranks]                                             */
    pst_place *members; /* [ranks * team]                                      */
};

static pst_status describe(pst_topology *topology, const char *synthetic,
                           const char *xml, pst_error *err)
{
    if (synthetic && xml)
        return pst_error_set(err, PST_EINVAL,
                             "a synthetic topology and an XML topology were both "
                             "given; one of them would work");
    errno = 0;
    if (synthetic && hwloc_topology_set_synthetic(topology->hwloc, synthetic) != 0)
        return errno == ENOMEM
                   ? pst_error_no_memory(err, "the topology", 0)
                   : pst_error_set(
                         err, PST_EINVAL,
                         "topology '%s' is not hwloc's synthetic form; the levels "
                         "go from the root to 'pu', as in 'pack:2 core:4 pu:2'",
                         synthetic);
    if (xml && hwloc_topology_set_xml(topology->hwloc, xml) != 0)
        return errno == ENOMEM
                   ? pst_error_no_memory(err, "the topology", 0)
                   : pst_error_set(err, PST_EINVAL,
                                   "topology file %s cannot be read as hwloc XML; "
                                   "'lstopo FILE.xml' writes such a file",
                                   xml);
    return PST_OK;
}

static pst_status load(pst_topology *topology, const char *synthetic, const char *xml,
                       pst_error *err)
{
    if (hwloc_get_api_version() >> 16 != HWLOC_API_VERSION >> 16)
        return pst_error_set(err, PST_ESYSTEM,
                             "hwloc %u was loaded, and %u is what this was built with",
                             hwloc_get_api_version() >> 16, HWLOC_API_VERSION >> 16);
    if (hwloc_topology_init(&topology->hwloc) != 0)
        return pst_error_no_memory(err, "the topology", 0);
    const pst_status status = describe(topology, synthetic, xml, err);
    if (status != PST_OK)
        return status;
    /* Distances would only add groups, which differ from boot to boot. */
    const unsigned long flags = HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING |
                                HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                                HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS;
    if (hwloc_topology_set_flags(topology->hwloc, flags) != 0 ||
        hwloc_topology_load(topology->hwloc) != 0)
        return pst_error_set(err, synthetic || xml ? PST_EINVAL : PST_ESYSTEM,
                             "hwloc cannot load the topology%s%s: %s",
                             synthetic || xml ? " " : "",
                             synthetic ? synthetic
                             : xml     ? xml
                                       : "",
                             strerror(errno));
    topology->here = pst__bind_is_here(topology->hwloc);
    return PST_OK;
}

/* Restricted to the affinity, unless none of that is in the topology: then hwloc was
 * told of another machine, and binding will be refused. */
static pst_status find_usable(pst_topology *topology, pst_error *err)
{
    hwloc_bitmap_t affinity = hwloc_bitmap_alloc();
    topology->usable =
        hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology->hwloc));
    bool made = affinity && topology->usable;
    if (made && topology->here && pst__bind_cpus(topology->hwloc, affinity) &&
        hwloc_bitmap_intersects(affinity, topology->usable))
        made = hwloc_bitmap_and(topology->usable, topology->usable, affinity) == 0;
    hwloc_bitmap_free(affinity);
    return made ? PST_OK : pst_error_no_memory(err, "the topology", 0);
}

/* rank's place: all CPUs of its team, the nodes of its first member. */
static bool join_team(pst_place *place, const pst_place *members, int team)
{
    place->core = members[0].core;
    place->cpus = hwloc_bitmap_alloc();
    place->nodes = hwloc_bitmap_dup(members[0].nodes);
    bool joined = place->cpus && place->nodes;
    for (int member = 0; joined && member < team; member++)
        joined = hwloc_bitmap_or(place->cpus, place->cpus, members[member].cpus) == 0;
    return joined;
}

/* A core with CPUs of `place`, the `index`-th; NULL behind the last. */
static hwloc_obj_t core_of(const pst_topology *topology, const pst_place *place,
                           int index)
{
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology->hwloc, HWLOC_OBJ_CORE, core)))
        if (hwloc_bitmap_intersects(core->cpuset, place->cpus) && index-- == 0)
            return core;
    return NULL;
}

static int count_cores(const pst_topology *topology, const pst_place *place)
{
    int count = 0;
    while (core_of(topology, place, count))
        count++;
    return count;
}

/* Of a place from a list each member has a core, or all of it where there are fewer. */
static bool share_place(const pst_topology *topology, const pst_place *place,
                        pst_place *members, int team)
{
    const bool enough = team > 1 && count_cores(topology, place) >= team;
    for (int member = 0; member < team; member++) {
        const hwloc_obj_t core = enough ? core_of(topology, place, member) : NULL;
        pst_place *own = &members[member];
        own->core = core ? (int)core->logical_index : place->core;
        own->cpus = hwloc_bitmap_dup(place->cpus);
        own->nodes = hwloc_bitmap_dup(place->nodes);
        if (!own->cpus || !own->nodes ||
            (core && hwloc_bitmap_and(own->cpus, own->cpus, core->cpuset) != 0))
            return false;
    }
    return true;
}

static pst_status parse_places(pst_topology *topology, const char *cpus, pst_error *err)
{
    const pst_status status =
        pst__places_parse(cpus ? cpus : "", topology->hwloc, topology->usable,
                          topology->ranks, topology->places, err);
    for (int rank = 0; status == PST_OK && rank < topology->ranks; rank++)
        if (!share_place(topology, &topology->places[rank],
                         &topology->members[rank * topology->team], topology->team))
            return pst_error_no_memory(err, "the topology", 0);
    return status;
}

static pst_status choose_places(pst_topology *topology, bool whole_cores,
                                pst_error *err)
{
    const pst_status status = pst__places_choose(
        &topology->env, topology->hwloc, topology->usable, whole_cores, topology->ranks,
        topology->team, topology->members, err);
    for (int rank = 0; status == PST_OK && rank < topology->ranks; rank++)
        if (!join_team(&topology->places[rank],
                       &topology->members[rank * topology->team], topology->team))
            return pst_error_no_memory(err, "the topology", 0);
    return status;
}

static pst_status find_places(pst_topology *topology,
                              const pst_topology_options *options, pst_error *err)
{
    const size_t ranks = (size_t)topology->ranks, team = (size_t)topology->team;
    topology->places = pst_allocate_array(&topology->env, ranks, sizeof(pst_place));
    topology->members =
        pst_allocate_array(&topology->env, ranks * team, sizeof(pst_place));
    if (!topology->places || !topology->members)
        return pst_error_no_memory(err, "the topology", 0);
    return options->bind == PST_BIND_LIST
               ? parse_places(topology, options->cpus, err)
               : choose_places(topology, options->bind == PST_BIND_CORE, err);
}

/* The machine, but no places yet. */
static pst_status open_machine(const pst_env *env, const pst_topology_options *options,
                               pst_topology **out, pst_error *err)
{
    pst_topology *topology = pst_allocate(env, sizeof *topology);
    if (!topology)
        return pst_error_no_memory(err, "the topology", sizeof *topology);
    if (env)
        topology->env = *env;
    topology->ranks = options->ranks;
    topology->team = options->team;
    pst_status status = load(topology, options->synthetic, options->xml, err);
    if (status == PST_OK)
        status = find_usable(topology, err);
    if (status == PST_OK)
        *out = topology;
    else
        pst__topology_destroy(topology);
    return status;
}

pst_status pst__topology_create(const pst_env *env, const pst_topology_options *options,
                                pst_topology **out, pst_error *err)
{
    pst_topology *topology;
    pst_status status = open_machine(env, options, &topology, err);
    if (status != PST_OK)
        return status;
    status = find_places(topology, options, err);
    if (status == PST_OK && topology->here)
        topology->has_policy = pst__bind_has_policy(topology->hwloc);
    if (status == PST_OK)
        *out = topology;
    else
        pst__topology_destroy(topology);
    return status;
}

pst_status pst__topology_team(const pst_env *env, const pst_topology_options *options,
                              int *team, pst_error *err)
{
    pst_topology_options single = *options;
    pst_topology *topology;
    single.team = 1;
    pst_status status = open_machine(env, &single, &topology, err);
    if (status != PST_OK)
        return status;
    if (options->bind != PST_BIND_LIST) {
        status = pst__places_team(env, topology->hwloc, topology->usable,
                                  options->ranks, team, err);
    } else if ((status = find_places(topology, &single, err)) == PST_OK) {
        *team = INT_MAX;
        for (int rank = 0; rank < options->ranks; rank++) {
            const int cores = count_cores(topology, &topology->places[rank]);
            *team = cores < *team ? cores : *team;
        }
        *team = *team > 1 ? *team : 1;
    }
    pst__topology_destroy(topology);
    return status;
}

void pst__topology_destroy(pst_topology *topology)
{
    if (!topology)
        return;
    const pst_env env = topology->env;
    pst__places_fini(topology->places, topology->ranks);
    pst__places_fini(topology->members, topology->ranks * topology->team);
    pst_release(&env, topology->places);
    pst_release(&env, topology->members);
    hwloc_bitmap_free(topology->usable);
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    pst_release(&env, topology);
}

bool pst__topology_is_here(const pst_topology *topology)
{
    return topology->here;
}

char *pst__topology_cpus(const pst_topology *topology, int rank, char *text,
                         size_t size)
{
    hwloc_bitmap_list_snprintf(text, size, topology->places[rank].cpus);
    return text;
}

int pst__topology_core(const pst_topology *topology, int rank)
{
    return topology->places[rank].core;
}

int pst__topology_numa_node(const pst_topology *topology, int rank)
{
    return hwloc_bitmap_first(topology->places[rank].nodes);
}

bool pst__topology_bind(const pst_topology *topology, int rank, int member)
{
    const pst_place *own = &topology->members[rank * topology->team + member];
    errno = 0;
    return topology->here && pst__bind_thread(topology->hwloc, own->cpus);
}

bool pst__topology_bind_memory(const pst_topology *topology, int rank,
                               const void *memory, size_t bytes)
{
    const pst_place *place = &topology->places[rank];
    errno = 0;
    return topology->here && !topology->has_policy &&
           !hwloc_bitmap_iszero(place->nodes) &&
           pst__bind_memory(topology->hwloc, memory, bytes, place->nodes);
}

bool pst__topology_locate(const pst_topology *topology, int rank, const void *memory,
                          size_t bytes, char *text, size_t size)
{
    bool near = true;
    hwloc_bitmap_t nodes = topology->here ? hwloc_bitmap_alloc() : NULL;
    text[0] = '\0';
    if (nodes && pst__bind_nodes(topology->hwloc, memory, bytes, nodes) &&
        !hwloc_bitmap_iszero(nodes)) {
        hwloc_bitmap_list_snprintf(text, size, nodes);
        near = hwloc_bitmap_isincluded(nodes, topology->places[rank].nodes) != 0;
    }
    hwloc_bitmap_free(nodes);
    return near;
}
