/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_bind.c - every call that binds, on machines that we don't have.
 *
 * This program has a layer of its own in place of stages/bind.c: described machines are
 * taken for this one, calls are written down and may be refused.
 */
#include <check.h>
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/bind.h"
#include "stages/topology.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

/* ---- the layer --------------------------------------------------------------- */

enum { TEXT = 96 };

typedef struct layer {
    const char *affinity; /* NULL: all CPUs; "": unknown                       */
    bool has_policy;
    int refuse_thread; /* errno; 0: accepted                                   */
    int refuse_memory;
    int refuse_huge;
    const char *found; /* nodes that pages are on; NULL: where they were bound */
    pst_atomic_u32 thread_calls;
    pst_atomic_u32 memory_calls;
    char cpus[TEXT];  /* of the last call; calls of workers write it in turn   */
    char nodes[TEXT]; /* likewise                                              */
    pst_atomic_u32 lock;
} layer;

static layer fake;

static void enter(void)
{
    while (atomic_exchange(&fake.lock, 1))
        ;
}

static void leave(void)
{
    atomic_store(&fake.lock, 0);
}

bool pst__bind_is_here(hwloc_topology_t machine)
{
    (void)machine;
    return true;
}

bool pst__bind_cpus(hwloc_topology_t machine, hwloc_bitmap_t cpus)
{
    if (fake.affinity)
        return *fake.affinity && hwloc_bitmap_list_sscanf(cpus, fake.affinity) == 0;
    return hwloc_bitmap_copy(cpus, hwloc_topology_get_allowed_cpuset(machine)) == 0;
}

bool pst__bind_thread(hwloc_topology_t machine, hwloc_const_bitmap_t cpus)
{
    (void)machine;
    atomic_fetch_add(&fake.thread_calls, 1);
    enter();
    hwloc_bitmap_list_snprintf(fake.cpus, sizeof fake.cpus, cpus);
    leave();
    errno = fake.refuse_thread;
    return !fake.refuse_thread;
}

void *pst__bind_map(size_t bytes, bool huge)
{
    (void)huge;
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    void *memory = aligned_alloc(4096, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

void pst__bind_unmap(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

bool pst__bind_huge(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
    errno = fake.refuse_huge;
    return !fake.refuse_huge;
}

bool pst__bind_has_policy(hwloc_topology_t machine)
{
    (void)machine;
    return fake.has_policy;
}

bool pst__bind_memory(hwloc_topology_t machine, const void *memory, size_t bytes,
                      hwloc_const_bitmap_t nodes)
{
    (void)machine;
    (void)memory;
    ck_assert_uint_gt(bytes, 0);
    atomic_fetch_add(&fake.memory_calls, 1);
    hwloc_bitmap_list_snprintf(fake.nodes, sizeof fake.nodes, nodes);
    errno = fake.refuse_memory;
    return !fake.refuse_memory;
}

bool pst__bind_nodes(hwloc_topology_t machine, const void *memory, size_t bytes,
                     hwloc_bitmap_t nodes)
{
    (void)machine;
    (void)memory;
    (void)bytes;
    return fake.found && hwloc_bitmap_list_sscanf(nodes, fake.found) == 0;
}

long long pst__bind_free_bytes(int node)
{
    return 1000 + node;
}

/* ---- places ------------------------------------------------------------------ */

/* What stands for a machine that the folder has as XML. */
static bool machine_file(const char *machine, char *path, size_t size)
{
    const char *top = getenv("srcdir");
    snprintf(path, size, "%s/tests/data/machines/%s", top ? top : ".", machine);
    return strstr(machine, ".xml") != NULL;
}

static pst_status create(const char *machine, pst_bind bind, const char *cpus,
                         int ranks, int team, pst_topology **out, pst_error *err)
{
    char path[4096];
    const bool xml = machine_file(machine, path, sizeof path);
    const pst_topology_options options = {.synthetic = xml ? NULL : machine,
                                          .xml = xml ? path : NULL,
                                          .bind = bind,
                                          .cpus = cpus,
                                          .ranks = ranks,
                                          .team = team};
    return pst__topology_create(NULL, &options, out, err);
}

/* "0-1@0 2-3@0": CPUs and nodes that the calls for each rank were about. */
static void bind_all(const char *machine, pst_bind bind, const char *cpus, int ranks,
                     char *text, size_t size)
{
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    size_t used = 0;
    const pst_status status = create(machine, bind, cpus, ranks, 1, &topology, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    for (int rank = 0; rank < ranks; rank++) {
        ck_assert(pst__topology_bind(topology, rank, 0));
        ck_assert(pst__topology_bind_memory(topology, rank, text, 1));
        used += (size_t)snprintf(text + used, size - used, "%s%s@%s",
                                 rank > 0 ? " " : "", fake.cpus, fake.nodes);
        ck_assert_uint_lt(used, size);
    }
    ck_assert_uint_eq(fake.thread_calls, (unsigned)ranks);
    ck_assert_uint_eq(fake.memory_calls, (unsigned)ranks);
    pst__topology_destroy(topology);
}

typedef struct place_row {
    const char *machine; /* hwloc's synthetic form, or a file's name           */
    const char *affinity;
    pst_bind bind;
    const char *cpus;
    int ranks;
    const char *places;
} place_row;

#define FOUR_BY_TWO "pack:4 numa:2 core:16 pu:2"
#define CORES_0_15                                                                     \
    "0-1@0 2-3@0 4-5@0 6-7@0 8-9@0 10-11@0 12-13@0 14-15@0 16-17@0 18-19@0 20-21@0 "   \
    "22-23@0 24-25@0 26-27@0 28-29@0 30-31@0"

static const place_row rows[] = {
    /* one of everything, and then hyperthreads */
    {"pack:1 core:1 pu:1", 0, 0, 0, 1, "0@0"},
    {"pack:1 core:1 pu:1", 0, 0, 0, 3, "0@0 0@0 0@0"},
    {"core:1 pu:2", 0, 0, 0, 1, "0-1@0"},
    {"core:1 pu:2", 0, 0, 0, 2, "0@0 1@0"},
    {"core:1 pu:2", 0, 0, 0, 3, "0-1@0 0-1@0 0-1@0"},
    {"core:2 pu:1", 0, 0, 0, 2, "0@0 1@0"},
    {"core:2 pu:1", 0, 0, 0, 5, "0-1@0 0-1@0 0-1@0 0-1@0 0-1@0"},
    {"pack:1 pu:4", 0, 0, 0, 3, "0@0 1@0 2@0"},
    {"core:4 pu:2", 0, 0, 0, 3, "0-1@0 2-3@0 4-5@0"},
    {"core:4 pu:2", 0, 0, 0, 4, "0-1@0 2-3@0 4-5@0 6-7@0"},
    {"core:4 pu:2", 0, 0, 0, 5, "0@0 1@0 2-3@0 4-5@0 6-7@0"},
    {"core:4 pu:2", 0, 0, 0, 6, "0@0 1@0 2-3@0 4@0 5@0 6-7@0"},
    {"core:4 pu:2", 0, 0, 0, 8, "0@0 1@0 2@0 3@0 4@0 5@0 6@0 7@0"},
    {"core:4 pu:2", 0, 0, 0, 9,
     "0-7@0 0-7@0 0-7@0 0-7@0 0-7@0 0-7@0 0-7@0 0-7@0 0-7@0"},
    {"core:4 pu:2", 0, PST_BIND_CORE, 0, 3, "0-1@0 2-3@0 4-5@0"},
    {"core:4 pu:2", 0, PST_BIND_CORE, 0, 6, "0-1@0 0-1@0 2-3@0 4-5@0 4-5@0 6-7@0"},
    /* hyperthreads numbered after all cores, as Linux often does */
    {"core:4 pu:2(indexes=0,4,1,5,2,6,3,7)", 0, 0, 0, 2, "0,4@0 1,5@0"},
    {"core:4 pu:2(indexes=0,4,1,5,2,6,3,7)", 0, 0, 0, 5, "0@0 4@0 1,5@0 2,6@0 3,7@0"},
    /* as few caches, nodes and sockets as hold them */
    {"pack:2 core:2 pu:1", 0, 0, 0, 3, "0@0 1@0 2@0"},
    {"pack:1 l3:2 core:3 pu:1", 0, 0, 0, 5, "0@0 1@0 2@0 3@0 4@0"},
    {"pack:2 [numa] core:2 pu:1", 0, 0, 0, 6, "0-1@0 0-1@0 0-1@0 2-3@1 2-3@1 2-3@1"},
    {FOUR_BY_TWO, 0, 0, 0, 1, "0-1@0"},
    {FOUR_BY_TWO, 0, 0, 0, 16, CORES_0_15},
    {FOUR_BY_TWO, 0, 0, 0, 17, CORES_0_15 " 32-33@1"},
    {FOUR_BY_TWO, "32-255", 0, 0, 2, "32-33@1 34-35@1"},
    {FOUR_BY_TWO, "62-79", 0, 0, 4, "64-65@2 66-67@2 68-69@2 70-71@2"},
    {FOUR_BY_TWO, "31-33,200", 0, 0, 3, "31@0 32-33@1 200@6"},
    {FOUR_BY_TWO, "0-1,255", 0, 0, 3, "0@0 1@0 255@7"},
    {"numa:8 core:2 pu:1", 0, 0, 0, 3, "0@0 1@0 2@1"},
    {"numa:8 core:2 pu:1", 0, 0, 0, 9, "0@0 1@0 2@1 3@1 4@2 5@2 6@3 7@3 8@4"},
    {"numa:8 core:2 pu:1", 0, 0, 0, 18,
     "0-1@0 0-1@0 0-1@0 2-3@1 2-3@1 4-5@2 4-5@2 6-7@3 6-7@3 8-9@4 8-9@4 8-9@4 "
     "10-11@5 10-11@5 12-13@6 12-13@6 14-15@7 14-15@7"},
    {"numa:8 core:2 pu:1", "3-8", 0, 0, 2, "4@2 5@2"},
    {"numa:8 core:2 pu:1", "3-8", 0, 0, 3, "4@2 5@2 6@3"},
    {"numa:8 core:2 pu:1", "1,3,5,7", 0, 0, 4, "1@0 3@1 5@2 7@3"},
    {"numa:8 core:2 pu:1", "13", 0, 0, 2, "13@6 13@6"},
    /* an affinity that is not of this machine, or not known, counts for nothing */
    {"core:2 pu:1", "64-70", 0, 0, 2, "0@0 1@0"},
    {"core:2 pu:1", "", 0, 0, 2, "0@0 1@0"},
    /* fast cores first, however they are numbered; then slow ones, then hyperthreads */
    {"hybrid.xml", 0, 0, 0, 1, "4-5@0"},
    {"hybrid.xml", 0, 0, 0, 4, "4-5@0 6-7@0 8-9@0 10-11@0"},
    {"hybrid.xml", 0, 0, 0, 5, "0@0 4-5@0 6-7@0 8-9@0 10-11@0"},
    {"hybrid.xml", 0, 0, 0, 9, "0@0 1@0 2@0 3@0 4@0 5@0 6-7@0 8-9@0 10-11@0"},
    {"hybrid.xml", "0-5", 0, 0, 2, "0@0 4-5@0"},
    {"frequencies.xml", 0, 0, 0, 3, "0@0 1@0 2@0"},
    {"offline.xml", 0, 0, 0, 3, "1@0 2-3@0 7@0"},
    {"offline.xml", 0, 0, 0, 4, "1@0 2@0 3@0 7@0"},
    {"uneven.xml", 0, 0, 0, 2, "0@0 1@0"},
    {"uneven.xml", 0, 0, 0, 3, "8@1 9@1 10@1"},
    {"uneven.xml", 0, 0, 0, 7, "0@0 1@0 8@1 9@1 10@1 11@1 12@1"},
    /* lists */
    {"core:4 pu:2", 0, PST_BIND_LIST, "7,0,2-3", 4, "7@0 0@0 2@0 3@0"},
    {"core:4 pu:2", 0, PST_BIND_LIST, "0-1,4:2-3:2", 3, "0-1,4@0 2-3@0 2@0"},
    {"core:4 pu:2", 0, PST_BIND_LIST, "0-2", 1, "0-2@0"},
    {"numa:8 core:2 pu:1", 0, PST_BIND_LIST, "15:1-2", 2, "15@7 1-2@0-1"},
    {"uneven.xml", 0, PST_BIND_LIST, "13,0", 2, "13@1 0@0"},
};

START_TEST(test_places)
{
    const place_row *row = &rows[_i];
    char text[1024];
    fake.affinity = row->affinity;
    bind_all(row->machine, row->bind, row->cpus, row->ranks, text, sizeof text);
    ck_assert_str_eq(text, row->places);
}
END_TEST

/* However many ranks: in the order of cores, and shared evenly. */
START_TEST(test_many_ranks)
{
    for (int ranks = 1; ranks <= 100; ranks++) {
        pst_error err = PST_ERROR_INIT;
        pst_topology *topology = NULL;
        int count[32] = {0};
        int before = 0;
        ck_assert_int_eq(create("numa:8 core:4 pu:2", PST_BIND_AUTO, NULL, ranks, 1,
                                &topology, &err),
                         PST_OK);
        for (int rank = 0; rank < ranks; rank++) {
            const int core = pst__topology_core(topology, rank);
            if (ranks > 64) { /* all of a node's */
                ck_assert_int_eq(core, -1);
                continue;
            }
            ck_assert_int_ge(core, before);
            ck_assert_int_le(core, before + 1);
            ck_assert_int_eq(pst__topology_numa_node(topology, rank), core / 4);
            count[before = core]++;
        }
        for (int core = 0; core < 32 && ranks <= 64; core++)
            ck_assert_int_le(count[core], (ranks + 31) / 32);
        pst__topology_destroy(topology);
    }
}
END_TEST

typedef struct team_row {
    const char *machine;
    const char *affinity;
    pst_bind bind;
    const char *cpus;
    int ranks;
    int team;
    const char *places; /* of each member; then of each rank, which is the union */
    int fits;           /* what pst_pipeline_team() gives for so many ranks     */
} team_row;

static const team_row teams[] = {
    {"core:4 pu:1", 0, 0, 0, 1, 2, "0+1 | 0-1@0", 4},
    {"core:4 pu:1", 0, 0, 0, 2, 2, "0+1 2+3 | 0-1@0 2-3@0", 2},
    {"core:4 pu:2", 0, 0, 0, 2, 2, "0-1+2-3 4-5+6-7 | 0-3@0 4-7@0", 2},
    /* more than there are cores: to hyperthreads, then share */
    {"core:2 pu:2", 0, 0, 0, 2, 2, "0+1 2+3 | 0-1@0 2-3@0", 1},
    {"core:2 pu:1", 0, 0, 0, 1, 4, "0-1+0-1+0-1+0-1 | 0-1@0", 2},
    {"core:2 pu:1", 0, 0, 0, 3, 1, "0-1 0-1 0-1 | 0-1@0 0-1@0 0-1@0", 1},
    /* not from one cache into the next while there is room */
    {"pack:1 l3:2 core:4 pu:1", 0, 0, 0, 2, 3, "0+1+2 4+5+6 | 0-2@0 4-6@0", 4},
    {"pack:1 l3:2 core:4 pu:1", 0, 0, 0, 2, 2, "0+1 2+3 | 0-1@0 2-3@0", 4},
    {"pack:1 l3:2 core:4 pu:1", "1-7", 0, 0, 3, 2, "1+2 4+5 6+7 | 1-2@0 4-5@0 6-7@0",
     2},
    {"pack:1 l3:2 core:3 pu:1", 0, 0, 0, 3, 2, "0+1 2+3 4+5 | 0-1@0 2-3@0 4-5@0", 1},
    {"pack:2 l2:4 core:1 pu:1", 0, 0, 0, 2, 3, "0+1+2 4+5+6 | 0-2@0 4-6@0", 4},
    {"pack:1 l3:4 core:2 pu:1", 0, 0, 0, 1, 5, "0+1+2+3+4 | 0-4@0", 2},
    {"numa:8 l3:2 core:4 pu:1", 0, 0, 0, 16, 3,
     "0+1+2 4+5+6 8+9+10 12+13+14 16+17+18 20+21+22 24+25+26 28+29+30 32+33+34 "
     "36+37+38 40+41+42 44+45+46 48+49+50 52+53+54 56+57+58 60+61+62 | 0-2@0 4-6@0 "
     "8-10@1 12-14@1 16-18@2 20-22@2 24-26@3 28-30@3 32-34@4 36-38@4 40-42@5 44-46@5 "
     "48-50@6 52-54@6 56-58@7 60-62@7",
     4},
    /* cores of one speed each */
    {"hybrid.xml", 0, 0, 0, 2, 2, "4-5+6-7 8-9+10-11 | 4-7@0 8-11@0", 4},
    {"hybrid.xml", 0, 0, 0, 3, 2, "0+1 4-5+6-7 8-9+10-11 | 0-1@0 4-7@0 8-11@0", 2},
    /* a list: a core for each member, or all of it */
    {"core:4 pu:2", 0, PST_BIND_LIST, "0-3:6-7", 2, 2, "0-1+2-3 6-7+6-7 | 0-3@0 6-7@0",
     1},
    {"core:4 pu:2", 0, PST_BIND_LIST, "0,2:4-7", 2, 2, "0+2 4-5+6-7 | 0,2@0 4-7@0", 2},
};

/* " 0-1@0 2-3@0": the CPUs of all teams, and the nodes of their memory. */
static void rank_places(const pst_topology *topology, int ranks, char *text,
                        size_t size)
{
    size_t used = 0;
    for (int rank = 0; rank < ranks; rank++) {
        char cpus[64];
        ck_assert(pst__topology_bind_memory(topology, rank, text, 1));
        used += (size_t)snprintf(text + used, size - used, " %s@%s",
                                 pst__topology_cpus(topology, rank, cpus, sizeof cpus),
                                 fake.nodes);
        ck_assert_uint_lt(used, size);
    }
}

START_TEST(test_teams)
{
    const team_row *row = &teams[_i];
    char text[1024], path[4096];
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    size_t used = 0;
    int fits = 0;
    fake.affinity = row->affinity;
    ck_assert_int_eq(create(row->machine, row->bind, row->cpus, row->ranks, row->team,
                            &topology, &err),
                     PST_OK);
    for (int i = 0; i < row->ranks * row->team; i++) {
        ck_assert(pst__topology_bind(topology, i / row->team, i % row->team));
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 i == 0               ? ""
                                 : i % row->team == 0 ? " "
                                                      : "+",
                                 fake.cpus);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, " |");
    rank_places(topology, row->ranks, text + used, sizeof text - used);
    ck_assert_str_eq(text, row->places);
    pst__topology_destroy(topology);

    const bool xml = machine_file(row->machine, path, sizeof path);
    const pst_pipeline_options options = {.topology_synthetic =
                                              xml ? NULL : row->machine,
                                          .topology_xml = xml ? path : NULL,
                                          .bind = row->bind,
                                          .bind_cpus = row->cpus};
    ck_assert_int_eq(pst_pipeline_team(NULL, row->ranks, &options, &fits, &err),
                     PST_OK);
    ck_assert_int_eq(fits, row->fits);
}
END_TEST

typedef struct bad_list {
    const char *machine;
    const char *affinity;
    const char *list;
    int ranks;
    const char *text;
} bad_list;

#define FORM                                                                           \
    "; write one CPU a rank, as in 0,2,4-5, or all CPUs of each rank with ':' "        \
    "between "                                                                         \
    "ranks, as in 0-1:2-3"

static const bad_list bad_lists[] = {
    {"core:4 pu:1", 0, "0,1", 3, "CPU list '0,1' has 2 CPUs for 3 ranks" FORM},
    {"core:4 pu:1", 0, "0-3", 3, "CPU list '0-3' has 4 CPUs for 3 ranks" FORM},
    {"core:4 pu:1", 0, "0", 2, "CPU list '0' has 1 CPU for 2 ranks" FORM},
    {"core:4 pu:1", 0, "0:1", 1, "CPU list '0:1' has 2 places for 1 rank" FORM},
    {"core:4 pu:1", 0, "", 1, "CPU list '': its end is not understood" FORM},
    {"core:4 pu:1", 0, "0,", 1, "CPU list '0,': its end is not understood" FORM},
    {"core:4 pu:1", 0, "0,:1", 2, "CPU list '0,:1': :1 is not understood" FORM},
    {"core:4 pu:1", 0, "3-1", 3, "CPU list '3-1': its end is not understood" FORM},
    {"core:4 pu:1", 0, "0-1-2", 3, "CPU list '0-1-2': -2 is not understood" FORM},
    {"core:4 pu:1", 0, "1234567", 1,
     "CPU list '1234567': 1234567 is not understood" FORM},
    {"core:4 pu:1", 0, "0:9", 2,
     "CPU list '0:9': CPU 9 is not in this machine; these would work: 0-3"},
    {"core:4 pu:1", "1-2", "2,3", 2,
     "CPU list '2,3': CPU 3 is offline or not for this process; these would work: 1-2"},
    {"offline.xml", 0, "1,0", 2,
     "CPU list '1,0': CPU 0 is offline or not for this process; these would work: "
     "1-3,7"},
    {"offline.xml", 0, "6", 1,
     "CPU list '6': CPU 6 is offline or not for this process; these would work: 1-3,7"},
};

START_TEST(test_bad_lists)
{
    const bad_list *row = &bad_lists[_i];
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    fake.affinity = row->affinity;
    ck_assert_int_eq(
        create(row->machine, PST_BIND_LIST, row->list, row->ranks, 1, &topology, &err),
        PST_EINVAL);
    ck_assert_str_eq(err.text, row->text);
    ck_assert_ptr_null(topology);
}
END_TEST

/* Who started the process said where its memory is to be, and that stays. */
START_TEST(test_policy_stays)
{
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    fake.has_policy = true;
    ck_assert_int_eq(
        create("numa:2 core:1 pu:1", PST_BIND_AUTO, NULL, 2, 1, &topology, &err),
        PST_OK);
    ck_assert(!pst__topology_bind_memory(topology, 1, &err, 1));
    ck_assert_int_eq(errno, 0);
    ck_assert_uint_eq(fake.memory_calls, 0);
    pst__topology_destroy(topology);
}
END_TEST

/* ---- pipelines --------------------------------------------------------------- */

static pst_atomic_u32 lines;
static char last_line[1024];

static void hear(void *user, pst_log_level level, const char *text)
{
    (void)user;
    (void)level;
    atomic_fetch_add(&lines, 1);
    snprintf(last_line, sizeof last_line, "%s", text);
}

static void warm(void *user, int rank)
{
    atomic_fetch_add((pst_atomic_u32 *)user + rank, 1);
}

/* Four ranks on two nodes run, and the results are right whatever was refused. */
static void run_pipeline(const char *warning, const char *memory_nodes)
{
    static toy t;
    static pst_atomic_u32 warmed[4];
    const pst_env env = {.log = hear};
    const pst_pipeline_options options = {.topology_synthetic = "numa:2 core:2 pu:1",
                                          .huge_pages = 1,
                                          .worker_start = warm,
                                          .worker_start_user = warmed};
    toy_init(&t, &(toy_shape){.stages = 4, .ranks = 4, .exact = true});
    pst_pipeline *pipeline = toy_create(&t, &env, &options);
    for (int i = 0; i < 2; i++) {
        pst_schedule *schedule = toy_named("1f1b", 4, 4 * (i + 1));
        const int program = toy_load(pipeline, schedule);
        pst_schedule_destroy(schedule);
        toy_run(&t, pipeline, program, 4 * (i + 1), i);
    }
    ck_assert_uint_eq(atomic_load(&lines), *warning != 0);
    ck_assert_str_eq(last_line, warning);
    ck_assert_uint_eq(fake.thread_calls, 4);
    /* weights, and buffers at least once */
    ck_assert_uint_ge(fake.memory_calls, fake.has_policy ? 0 : 8);
    for (int rank = 0; rank < 4; rank++) {
        static const char *const places[] = {"0", "1", "2", "3"};
        pst_worker_info info;
        pst_pipeline_worker(pipeline, rank, &info);
        ck_assert_uint_eq(warmed[rank], 1);
        ck_assert_str_eq(info.place, places[rank]);
        ck_assert_int_eq(info.core, rank);
        ck_assert_int_eq(info.numa_node, rank / 2);
        ck_assert_int_eq(info.planned, 0);
        ck_assert_int_eq(info.bound, !fake.refuse_thread);
        ck_assert_str_eq(info.memory_nodes, memory_nodes);
    }
    pst_pipeline_destroy(pipeline);
}

START_TEST(test_nothing_refused)
{
    fake.has_policy = _i;
    run_pipeline("", "");
}
END_TEST

START_TEST(test_threads_refused)
{
    fake.refuse_thread = EPERM;
    run_pipeline("4 of 4 workers could not be bound (rank 0 to CPU 0: Operation not "
                 "permitted) and run where the system puts them",
                 "");
}
END_TEST

START_TEST(test_memory_refused)
{
    fake.refuse_memory = EPERM;
    run_pipeline("memory of 4 of 4 ranks could not be bound (rank 0 to NUMA node 0: "
                 "Operation not permitted) and is where workers touch it first",
                 "");
}
END_TEST

START_TEST(test_huge_pages_refused)
{
    fake.refuse_huge = EINVAL;
    run_pipeline("huge pages were refused (Invalid argument), so pages are ordinary "
                 "ones",
                 "");
}
END_TEST

/* All of it is still one line. */
START_TEST(test_all_refused)
{
    fake.refuse_thread = ENOSYS;
    fake.refuse_memory = EPERM;
    fake.refuse_huge = EOPNOTSUPP;
    run_pipeline(
        "4 of 4 workers could not be bound (rank 0 to CPU 0: Function not implemented) "
        "and run where the system puts them; memory of 4 of 4 ranks could not be bound "
        "(rank 0 to NUMA node 0: Operation not permitted) and is where workers touch "
        "it first; huge pages were refused (Operation not supported), so pages are "
        "ordinary ones",
        "");
}
END_TEST

START_TEST(test_node_short_of_memory)
{
    fake.found = "0";
    run_pipeline("NUMA node 1 is short of memory: rank 2 needs 192 bytes; 1001 were "
                 "free; some are on node 0 now",
                 "0");
}
END_TEST

START_TEST(test_places_without_workers)
{
    pst_error err = PST_ERROR_INIT;
    pst_worker_info infos[2];
    const pst_pipeline_options options = {.topology_synthetic = "numa:2 core:1 pu:2"};
    const pst_pipeline_options none = {.bind = PST_BIND_NONE};
    ck_assert_int_eq(pst_pipeline_places(NULL, 2, &options, infos, &err), PST_OK);
    ck_assert_str_eq(infos[1].place, "2-3");
    ck_assert_int_eq(infos[1].numa_node, 1);
    ck_assert_int_eq(infos[1].core, 1);
    ck_assert_int_eq(pst_pipeline_places(NULL, 2, &none, infos, &err), PST_OK);
    ck_assert_str_eq(infos[1].place, "");
    ck_assert_int_eq(infos[1].numa_node, -1);
    ck_assert_int_eq(pst_pipeline_places(NULL, 2, NULL, infos, &err), PST_OK);
    ck_assert_uint_eq(fake.thread_calls + fake.memory_calls, 0);
    ck_assert_int_eq(pst_pipeline_places(NULL, 0, NULL, infos, &err), PST_EINVAL);
    ck_assert_str_eq(err.text, "places for 0 ranks; 1 would work");
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("bind");
    TCase *all = tcase_create("bind");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, test_teams, 0, sizeof teams / sizeof *teams);
    tcase_add_loop_test(all, test_places, 0, sizeof rows / sizeof *rows);
    tcase_add_test(all, test_many_ranks);
    tcase_add_loop_test(all, test_bad_lists, 0, sizeof bad_lists / sizeof *bad_lists);
    tcase_add_test(all, test_policy_stays);
    tcase_add_loop_test(all, test_nothing_refused, 0, 2);
    tcase_add_test(all, test_threads_refused);
    tcase_add_test(all, test_memory_refused);
    tcase_add_test(all, test_huge_pages_refused);
    tcase_add_test(all, test_all_refused);
    tcase_add_test(all, test_node_short_of_memory);
    tcase_add_test(all, test_places_without_workers);
    suite_add_tcase(suite, all);
    return suite;
}
