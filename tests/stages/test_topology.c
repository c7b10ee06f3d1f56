/* SPDX-License-Identifier: BSD-3-Clause */
/* test_topology.c - where ranks stand on described machines, and memory near them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stages/thread.h"
#include "stages/topology.h"
#include "tests/suite.h"

static pst_topology *load(const char *synthetic, int ranks)
{
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    const pst_status status =
        pst__topology_create(NULL, synthetic, NULL, ranks, &topology, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    return topology;
}

static void check_places(const char *synthetic, int ranks, const char *const *places)
{
    pst_topology *topology = load(synthetic, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        char text[64];
        ck_assert_str_eq(pst__topology_cpus(topology, rank, text, sizeof text),
                         places[rank]);
    }
    pst__topology_destroy(topology);
}

typedef struct places_row {
    const char *synthetic;
    int ranks;
    const char *places[16];
} places_row;

static const places_row rows[] = {
    {"pack:1 core:4 pu:2", 1, {"0-1"}},
    {"pack:1 core:4 pu:2", 2, {"0-1", "2-3"}},
    {"pack:1 core:4 pu:2", 4, {"0-1", "2-3", "4-5", "6-7"}},
    {"pack:1 core:4 pu:2", 5, {"0", "1", "2", "4", "6"}},
    {"pack:1 core:4 pu:2", 6, {"0", "1", "2", "4", "5", "6"}},
    {"pack:1 core:4 pu:2", 8, {"0", "1", "2", "3", "4", "5", "6", "7"}},
    {"pack:1 core:4 pu:2", 9, {"0-1", "0-1", "0-1", "2", "3", "4", "5", "6", "7"}},
    {"pack:2 core:2 pu:1", 3, {"0", "1", "2"}},
    {"pack:2 core:2 pu:1", 6, {"0", "0", "1", "2", "2", "3"}},
    {"pack:1 core:1 pu:1", 3, {"0", "0", "0"}},
    {"pack:1 pu:4", 3, {"0", "1", "2"}},
};

START_TEST(test_places)
{
    const places_row *row = &rows[_i];
    check_places(row->synthetic, row->ranks, row->places);
}
END_TEST

START_TEST(test_places_are_cut_to_size)
{
    pst_topology *topology = load("pack:1 core:4 pu:2", 1);
    char text[3];
    ck_assert_str_eq(pst__topology_cpus(topology, 0, text, sizeof text), "0-");
    pst__topology_destroy(topology);
}
END_TEST

/* As many ranks as one likes: each core has its share, in the order of ranks. */
START_TEST(test_many_ranks)
{
    for (int ranks = 1; ranks <= 64; ranks++) {
        pst_topology *topology = load("pack:2 core:3 pu:1", ranks);
        int count[6] = {0};
        int before = 0;
        for (int rank = 0; rank < ranks; rank++) {
            char text[16];
            const int core =
                atoi(pst__topology_cpus(topology, rank, text, sizeof text));
            ck_assert_int_ge(core, before);
            ck_assert_int_le(core, before + 1);
            count[before = core]++;
        }
        for (int core = 0; core < 6; core++)
            ck_assert_int_ge(count[core] + (ranks < 6), ranks / 6);
        for (int core = 0; core < 6; core++)
            ck_assert_int_le(count[core], (ranks + 5) / 6);
        pst__topology_destroy(topology);
    }
}
END_TEST

START_TEST(test_numa_node)
{
    static const int nodes[] = {0, 0, 1, 1};
    pst_topology *topology = load("numa:2 pack:1 core:2 pu:1", 4);
    for (int rank = 0; rank < 4; rank++)
        ck_assert_int_eq(pst__topology_numa_node(topology, rank), nodes[rank]);
    pst__topology_destroy(topology);
}
END_TEST

static void refuse(const char *synthetic, const char *xml, const char *text)
{
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    ck_assert_int_eq(pst__topology_create(NULL, synthetic, xml, 1, &topology, &err),
                     PST_EINVAL);
    ck_assert_ptr_null(topology);
    ck_assert_str_eq(err.text, text);
}

START_TEST(test_nonsense)
{
    refuse(
        "three cores, please", NULL,
        "topology 'three cores, please' is not hwloc's synthetic form; the levels go "
        "from the root to 'pu', as in 'pack:2 core:4 pu:2'");
    refuse("pack:1 core:0 pu:1", NULL,
           "topology 'pack:1 core:0 pu:1' is not hwloc's synthetic form; the levels go "
           "from the root to 'pu', as in 'pack:2 core:4 pu:2'");
    refuse(
        "pack:1 pu:1", "machine.xml",
        "a synthetic topology and an XML topology were both given; one of them would "
        "work");
    refuse(NULL, "no-such-folder/machine.xml",
           "topology file no-such-folder/machine.xml cannot be read as hwloc XML; "
           "'lstopo FILE.xml' writes such a file");
}
END_TEST

/* This machine, as far as the affinity goes: every rank stands on CPUs of it. */
START_TEST(test_this_machine)
{
    char before[256];
    char place[256];
    char own[256];
    pst__thread_cpus(before, sizeof before);
    pst_topology *topology = load(NULL, 3);
    ck_assert_str_eq(pst__thread_cpus(own, sizeof own), before);
    for (int rank = 0; rank < 3; rank++) {
        pst__topology_cpus(topology, rank, place, sizeof place);
        ck_assert(pst__topology_bind(topology, rank));
        ck_assert_str_eq(pst__thread_cpus(own, sizeof own), place);
    }
    pst__topology_destroy(topology);
}
END_TEST

START_TEST(test_bind_refuses_absent_cpus)
{
    pst_topology *topology = load("pack:1 core:1 pu:1(indexes=5000)", 1);
    char before[256];
    char own[256];
    pst__thread_cpus(before, sizeof before);
    ck_assert(!pst__topology_bind(topology, 0));
    ck_assert_str_eq(pst__thread_cpus(own, sizeof own), before);
    pst__topology_destroy(topology);
}
END_TEST

START_TEST(test_memory)
{
    static const char *const machines[] = {NULL, "numa:2 pack:1 core:2 pu:1"};
    pst_topology *topology = load(machines[_i], 4);
    for (int rank = 0; rank < 4; rank++) {
        const size_t bytes = 100000 + (size_t)rank;
        unsigned char *memory = pst__topology_allocate(topology, rank, bytes);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
        for (size_t i = 0; i < bytes; i++)
            ck_assert_uint_eq(memory[i], 0);
        memset(memory, rank + 1, bytes);
        pst__topology_release(topology, memory, bytes);
    }
    pst__topology_destroy(topology);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("topology");
    TCase *all = tcase_create("topology");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, test_places, 0, sizeof rows / sizeof rows[0]);
    tcase_add_test(all, test_places_are_cut_to_size);
    tcase_add_test(all, test_many_ranks);
    tcase_add_test(all, test_numa_node);
    tcase_add_test(all, test_nonsense);
    tcase_add_test(all, test_this_machine);
    tcase_add_test(all, test_bind_refuses_absent_cpus);
    tcase_add_loop_test(all, test_memory, 0, 2);
    suite_add_tcase(suite, all);
    return suite;
}
