/* SPDX-License-Identifier: BSD-3-Clause */
/* place.c - choosing the CPUs of each rank on hwloc's tree. */
#include "stages/place.h"

#include <assert.h>
#include <hwloc.h>
#include <limits.h>
#include <string.h>

/* A core with usable CPUs, in the order of the tree. */
typedef struct core {
    hwloc_obj_t object;
    int cpus;      /* usable ones, at least 1                                  */
    int speed;     /* higher is faster; all the same where nobody knows         */
    bool eligible; /* for choose_cores()                                        */
    int ranks;     /* that stand here                                           */
} core;

typedef struct placing {
    const pst_env *env;
    hwloc_topology_t machine;
    hwloc_const_bitmap_t usable;
    core *cores;
    size_t count;
    int team; /* cores that are to be near each other                          */
} placing;

/* ---- the cores --------------------------------------------------------------- */

static int usable_inside(const placing *p, hwloc_obj_t object)
{
    int count = 0;
    int cpu = hwloc_bitmap_first(object->cpuset);
    for (; cpu >= 0; cpu = hwloc_bitmap_next(object->cpuset, cpu))
        count += hwloc_bitmap_isset(p->usable, (unsigned)cpu) != 0;
    return count;
}

/* Kinds come slowest first. Those that differ in frequency alone are one core, of which
 * some samples turned out better. */
static int speed_of(const placing *p, hwloc_obj_t object)
{
    const int kind = hwloc_cpukinds_get_by_cpuset(p->machine, object->cpuset, 0);
    int efficiency = -1;
    unsigned count = 0;
    struct hwloc_info_s *infos = NULL;
    if (kind < 0 || hwloc_cpukinds_get_info(p->machine, (unsigned)kind, NULL,
                                            &efficiency, &count, &infos, 0) != 0)
        return 0;
    for (unsigned i = 0; i < count; i++)
        if (strcmp(infos[i].name, "CoreType") == 0 ||
            strcmp(infos[i].name, "LinuxCapacity") == 0)
            return efficiency;
    return 0;
}

/* PUs stand for cores on machines that know none. */
static pst_status find_cores(placing *p, pst_error *err)
{
    hwloc_obj_type_t type = HWLOC_OBJ_CORE;
    int all = hwloc_get_nbobjs_by_type(p->machine, type);
    if (all < 1) {
        type = HWLOC_OBJ_PU;
        all = hwloc_get_nbobjs_by_type(p->machine, type);
    }
    p->cores = pst_allocate_array(p->env, all > 0 ? (size_t)all : 1, sizeof *p->cores);
    if (!p->cores)
        return pst_error_no_memory(err, "places on cores", 0);
    for (int i = 0; i < all; i++) {
        hwloc_obj_t object = hwloc_get_obj_by_type(p->machine, type, (unsigned)i);
        const int cpus = usable_inside(p, object);
        if (cpus > 0)
            p->cores[p->count++] =
                (core){.object = object, .cpus = cpus, .speed = speed_of(p, object)};
    }
    return p->count > 0 ? PST_OK
                        : pst_error_set(err, PST_ESYSTEM,
                                        "the topology has no CPU that this process may "
                                        "use");
}

/* ---- cores that share a cache -------------------------------------------------- */

static bool has_two_cores(const placing *p, hwloc_obj_t object)
{
    size_t inside = 0;
    for (size_t i = 0; i < p->count && inside < 2; i++)
        inside += hwloc_bitmap_isincluded(p->cores[i].object->cpuset, object->cpuset);
    return inside == 2;
}

/* The largest cache that a core shares with another, or else what its memory or its
 * socket is attached to. */
static hwloc_obj_t group_of(const placing *p, const core *c)
{
    hwloc_obj_t cache = NULL, object = c->object;
    for (; object->parent; object = object->parent) {
        if (hwloc_obj_type_is_dcache(object->type))
            cache = object;
        if (object->type == HWLOC_OBJ_PACKAGE || object->memory_arity > 0)
            break;
    }
    return cache && has_two_cores(p, cache) ? cache : object;
}

/* How many cores from `first` on are of one group and one speed. */
static size_t stretch(const placing *p, size_t first)
{
    const hwloc_obj_t group = group_of(p, &p->cores[first]);
    size_t count = 1;
    while (
        first + count < p->count &&
        p->cores[first + count].speed == p->cores[first].speed &&
        hwloc_bitmap_isincluded(p->cores[first + count].object->cpuset, group->cpuset))
        count++;
    return count;
}

/* Teams of `team` cores that have room without leaving a group. */
static size_t room_for_teams(const placing *p, int team)
{
    size_t room = 0;
    for (size_t i = 0; i < p->count;) {
        const size_t count = stretch(p, i);
        room += count / (size_t)team;
        i += count;
    }
    return room;
}

pst_status pst__places_team(const pst_env *env, hwloc_topology_t machine,
                            hwloc_const_bitmap_t usable, int ranks, int *team,
                            pst_error *err)
{
    placing p = {.env = env, .machine = machine, .usable = usable};
    const pst_status status = find_cores(&p, err);
    if (status == PST_OK) {
        *team = (int)(p.count / (size_t)ranks);
        while (*team > 1 && room_for_teams(&p, *team) < (size_t)ranks)
            --*team;
        if (*team < 1)
            *team = 1;
    }
    pst_release(env, p.cores);
    return status;
}

/* ---- fewer ranks than cores --------------------------------------------------- */

/* A child of an object: its stretch of cores, and how many ranks it is to take. */
typedef struct branch {
    hwloc_obj_t object;
    size_t first;
    size_t count;
    int eligible;
    bool chosen;
} branch;

/* The children of `object` that have cores of the stretch; returns how many. */
static size_t list_branches(const placing *p, hwloc_obj_t object, size_t first,
                            size_t count, branch *branches)
{
    size_t found = 0;
    size_t at = first;
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling) {
        branch b = {.object = child, .first = at};
        for (; at < first + count &&
               hwloc_bitmap_isincluded(p->cores[at].object->cpuset, child->cpuset);
             at++)
            b.eligible += p->cores[at].eligible;
        b.count = at - b.first;
        if (b.eligible > 0)
            branches[found++] = b;
    }
    assert(at == first + count && "cores are not in the order of the tree");
    return found;
}

/* The smallest that holds them all, or NULL; the first of several. */
static branch *best_fit(branch *branches, size_t count, int ranks)
{
    branch *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (branches[i].eligible >= ranks &&
            (!best || branches[i].eligible < best->eligible))
            best = &branches[i];
    return best;
}

/* As few as hold them: the largest first. Each of the chosen then has more room than
 * they have left over in all. */
static void choose_branches(branch *branches, size_t count, int ranks)
{
    int room = 0;
    while (room < ranks) {
        branch *largest = NULL;
        for (size_t i = 0; i < count; i++)
            if (!branches[i].chosen &&
                (!largest || branches[i].eligible > largest->eligible))
                largest = &branches[i];
        assert(largest && "there are as many eligible cores as ranks");
        largest->chosen = true;
        room += largest->eligible;
    }
}

/* Mark `ranks` of the eligible cores first .. first + count - 1, which are those inside
 * `object`: rule 1 of place.h. */
static pst_status choose_cores(placing *p, hwloc_obj_t object, size_t first,
                               size_t count, int ranks, pst_error *err)
{
    while (object->arity == 1 && p->cores[first].object != object)
        object = object->first_child;
    if (p->cores[first].object == object) {
        p->cores[first].ranks += ranks;
        return PST_OK;
    }
    branch *branches = pst_allocate_array(p->env, object->arity, sizeof *branches);
    if (!branches)
        return pst_error_no_memory(err, "places on cores", 0);
    pst_status status = PST_OK;
    const size_t found = list_branches(p, object, first, count, branches);
    const branch *whole = best_fit(branches, found, ranks);
    if (whole) {
        status = choose_cores(p, whole->object, whole->first, whole->count, ranks, err);
    } else {
        choose_branches(branches, found, ranks);
        for (size_t i = 0; i < found && ranks > 0 && status == PST_OK; i++) {
            const branch *b = &branches[i];
            if (!b->chosen)
                continue;
            const int here = ranks < b->eligible ? ranks : b->eligible;
            status = choose_cores(p, b->object, b->first, b->count, here, err);
            ranks -= here;
        }
    }
    pst_release(p->env, branches);
    return status;
}

/* Cores of this speed; where `whole_teams`, without what is left over of each group. */
static int mark_eligible(placing *p, int speed, bool whole_teams)
{
    int eligible = 0;
    for (size_t i = 0; i < p->count;) {
        const size_t count = stretch(p, i);
        size_t taken = p->cores[i].speed == speed ? count : 0;
        if (whole_teams)
            taken -= taken % (size_t)p->team;
        for (size_t k = 0; k < count; k++)
            p->cores[i + k].eligible = k < taken;
        eligible += (int)taken;
        i += count;
    }
    return eligible;
}

/* The fastest first: all cores of a speed, until the rest fits in the next one's. */
static pst_status take_cores(placing *p, int ranks, pst_error *err)
{
    const bool whole_teams = room_for_teams(p, p->team) >= (size_t)(ranks / p->team);
    int below = INT_MAX;
    while (ranks > 0) {
        int speed = INT_MIN;
        for (size_t i = 0; i < p->count; i++)
            if (p->cores[i].speed < below && p->cores[i].speed > speed)
                speed = p->cores[i].speed;
        const int eligible = mark_eligible(p, speed, whole_teams);
        const int here = ranks < eligible ? ranks : eligible;
        const pst_status status =
            choose_cores(p, hwloc_get_root_obj(p->machine), 0, p->count, here, err);
        if (status != PST_OK)
            return status;
        ranks -= here;
        below = speed;
    }
    return PST_OK;
}

/* ---- as many ranks as cores, or more ------------------------------------------ */

/* Rule 2 of place.h: CPU by CPU of the cores, in rounds. */
static void fill_cores(placing *p, int ranks)
{
    int cpus = 0;
    for (size_t i = 0; i < p->count; i++)
        cpus += p->cores[i].cpus;
    assert(cpus > 0 && "a core has a usable CPU");
    for (size_t i = 0; i < p->count; i++)
        p->cores[i].ranks = ranks / cpus * p->cores[i].cpus;
    int rest = ranks % cpus;
    for (int round = 0; rest > 0; round++) {
        int room = 0;
        for (size_t i = 0; i < p->count; i++)
            room += p->cores[i].cpus > round;
        const int here = rest < room ? rest : room;
        int at = 0;
        for (size_t i = 0; i < p->count; i++) {
            if (p->cores[i].cpus <= round)
                continue;
            /* the k-th of `here` goes to number k * room / here */
            const long long before = ((long long)at * here + room - 1) / room;
            const long long after = ((long long)(at + 1) * here + room - 1) / room;
            p->cores[i].ranks += after > before;
            at++;
        }
        rest -= here;
    }
}

/* ---- from cores to ranks ------------------------------------------------------ */

static bool set_place(const placing *p, pst_place *place, hwloc_obj_t object,
                      int logical_core)
{
    place->cpus = hwloc_bitmap_dup(object->cpuset);
    place->nodes = hwloc_bitmap_dup(object->nodeset);
    place->core = logical_core;
    return place->cpus && place->nodes &&
           hwloc_bitmap_and(place->cpus, place->cpus, p->usable) == 0;
}

/* The i-th usable PU of a core. */
static hwloc_obj_t usable_pu(const placing *p, const core *c, int i)
{
    int cpu = -1;
    do {
        cpu = hwloc_bitmap_next(c->object->cpuset, cpu);
        if (cpu >= 0 && hwloc_bitmap_isset(p->usable, (unsigned)cpu))
            i--;
    } while (i >= 0);
    return hwloc_get_pu_obj_by_os_index(p->machine, (unsigned)cpu);
}

/* Where each of a core's ranks runs; all of them are as good as any of several. */
static hwloc_obj_t object_of(const placing *p, const core *c, int index, bool crowded,
                             bool whole_cores)
{
    if (crowded && !whole_cores)
        return group_of(p, c);
    const bool own_cpus = c->ranks > 1 && c->ranks <= c->cpus && !whole_cores;
    return own_cpus ? usable_pu(p, c, index) : c->object;
}

static bool set_places(const placing *p, bool whole_cores, int all, pst_place *places)
{
    int cpus = 0;
    for (size_t i = 0; i < p->count; i++)
        cpus += p->cores[i].cpus;
    for (size_t i = 0; i < p->count; i++) {
        const core *c = &p->cores[i];
        for (int k = 0; k < c->ranks; k++) {
            const hwloc_obj_t object = object_of(p, c, k, all > cpus, whole_cores);
            const bool one_core =
                c->object->type == HWLOC_OBJ_CORE &&
                hwloc_bitmap_isincluded(object->cpuset, c->object->cpuset);
            if (!set_place(p, places++, object,
                           one_core ? (int)c->object->logical_index : -1))
                return false;
        }
    }
    return true;
}

pst_status pst__places_choose(const pst_env *env, hwloc_topology_t machine,
                              hwloc_const_bitmap_t usable, bool whole_cores, int ranks,
                              int team, pst_place *places, pst_error *err)
{
    placing p = {.env = env, .machine = machine, .usable = usable, .team = team};
    const int all = ranks * team;
    pst_status status = find_cores(&p, err);
    if (status == PST_OK) {
        if ((size_t)all < p.count)
            status = take_cores(&p, all, err);
        else
            fill_cores(&p, all);
    }
    if (status == PST_OK && !set_places(&p, whole_cores, all, places))
        status = pst_error_no_memory(err, "places on cores", 0);
    pst_release(env, p.cores);
    return status;
}

/* ---- a list ------------------------------------------------------------------- */

/* "3" or "3-5" at *at, which moves behind it. */
static bool read_range(const char **at, unsigned *low, unsigned *high)
{
    unsigned *const ends[] = {low, high};
    for (int i = 0; i < 2; i++) {
        const size_t digits = strspn(*at, "0123456789");
        if (digits < 1 || digits > 6)
            return false;
        *ends[i] = 0;
        for (size_t k = 0; k < digits; k++)
            *ends[i] = 10 * *ends[i] + (unsigned)((*at)[k] - '0');
        *at += digits;
        if (i == 0 && **at != '-') {
            *high = *low;
            return true;
        }
        *at += i == 0;
    }
    return *high >= *low;
}

/* What both uses of a list are told: CPU `cpu` belongs to the list's part number `part`
 * between ':', and is its `index`-th CPU in all. */
typedef struct listing {
    hwloc_topology_t machine;
    hwloc_const_bitmap_t usable;
    const char *list;
    pst_place *places; /* NULL: only count                                      */
    int place_count;
    bool each_cpu; /* is a place of its own                                    */
    int parts;
    int cpus;
} listing;

static pst_status add_cpu(listing *l, unsigned cpu, pst_error *err)
{
    const int rank = l->each_cpu ? l->cpus : l->parts - 1;
    l->cpus++;
    if (!l->places || rank >= l->place_count)
        return PST_OK;
    char text[256];
    hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(l->machine, cpu);
    if (!pu || !hwloc_bitmap_isset(l->usable, cpu)) {
        hwloc_bitmap_list_snprintf(text, sizeof text, l->usable);
        return pst_error_set(
            err, PST_EINVAL, "CPU list '%s': CPU %u %s; these would work: %s", l->list,
            cpu,
            hwloc_bitmap_isset(hwloc_topology_get_complete_cpuset(l->machine), cpu)
                ? "is offline or not for this process"
                : "is not in this machine",
            text);
    }
    pst_place *place = &l->places[rank];
    if (!place->cpus) {
        hwloc_obj_t core =
            hwloc_get_ancestor_obj_by_type(l->machine, HWLOC_OBJ_CORE, pu);
        place->core = core ? (int)core->logical_index : -1;
        place->cpus = hwloc_bitmap_alloc();
        place->nodes = hwloc_bitmap_alloc();
    }
    if (!place->cpus || !place->nodes || hwloc_bitmap_set(place->cpus, cpu) != 0 ||
        hwloc_bitmap_or(place->nodes, place->nodes, pu->nodeset) != 0)
        return pst_error_no_memory(err, "places on cores", 0);
    return PST_OK;
}

static pst_status walk_list(listing *l, pst_error *err)
{
    l->parts = 1;
    l->cpus = 0;
    for (const char *at = l->list;; at++) {
        unsigned low, high;
        if (!read_range(&at, &low, &high) || !strchr(",:", *at))
            return pst_error_set(
                err, PST_EINVAL,
                "CPU list '%s': %s is not understood; write one CPU a rank, as in "
                "0,2,4-5, or all CPUs of each rank with ':' between ranks, as in "
                "0-1:2-3",
                l->list, *at ? at : "its end");
        for (unsigned cpu = low; cpu <= high; cpu++) {
            const pst_status status = add_cpu(l, cpu, err);
            if (status != PST_OK)
                return status;
        }
        if (*at == '\0')
            return PST_OK;
        l->parts += *at == ':';
    }
}

pst_status pst__places_parse(const char *list, hwloc_topology_t machine,
                             hwloc_const_bitmap_t usable, int ranks, pst_place *places,
                             pst_error *err)
{
    listing l = {.machine = machine, .usable = usable, .list = list};
    pst_status status = walk_list(&l, err);
    if (status != PST_OK)
        return status;
    l.each_cpu = l.parts == 1 && ranks > 1;
    const int found = l.each_cpu ? l.cpus : l.parts;
    if (found != ranks)
        return pst_error_set(
            err, PST_EINVAL,
            "CPU list '%s' has %d %s%s for %d rank%s; write one CPU a rank, as in "
            "0,2,4-5, or all CPUs of each rank with ':' between ranks, as in 0-1:2-3",
            list, found, l.each_cpu ? "CPU" : "place", found == 1 ? "" : "s", ranks,
            ranks == 1 ? "" : "s");
    l.places = places;
    l.place_count = ranks;
    return walk_list(&l, err);
}

void pst__places_fini(pst_place *places, int ranks)
{
    for (int rank = 0; places && rank < ranks; rank++) {
        hwloc_bitmap_free(places[rank].cpus);
        hwloc_bitmap_free(places[rank].nodes);
        places[rank] = (pst_place){.core = -1};
    }
}
