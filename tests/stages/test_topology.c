/* SPDX-License-Identifier: BSD-3-Clause */
/* test_topology.c - this machine and described ones, and memory near ranks. */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stages/arena.h"
#include "stages/thread.h"
#include "stages/topology.h"
#include "tests/suite.h"

static pst_topology *load(const char *synthetic, int ranks)
{
    pst_error err = PST_ERROR_INIT;
    pst_topology *topology = NULL;
    const pst_topology_options options = {
        .synthetic = synthetic, .ranks = ranks, .team = 1};
    const pst_status status = pst__topology_create(NULL, &options, &topology, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    return topology;
}

START_TEST(test_places_are_cut_to_size)
{
    pst_topology *topology = load("pack:1 core:4 pu:2", 1);
    char text[3];
    ck_assert_str_eq(pst__topology_cpus(topology, 0, text, sizeof text), "0-");
    pst__topology_destroy(topology);
}
END_TEST

/* As many ranks as there are CPUs: each core has its share, in the order of ranks. */
START_TEST(test_many_ranks)
{
    for (int ranks = 1; ranks <= 12; ranks++) {
        pst_topology *topology = load("pack:2 core:3 pu:2", ranks);
        int count[6] = {0};
        int before = 0;
        for (int rank = 0; rank < ranks; rank++) {
            char text[16];
            const int core =
                atoi(pst__topology_cpus(topology, rank, text, sizeof text)) / 2;
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
    const pst_topology_options options = {
        .synthetic = synthetic, .xml = xml, .ranks = 1, .team = 1};
    ck_assert_int_eq(pst__topology_create(NULL, &options, &topology, &err), PST_EINVAL);
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
        ck_assert(pst__topology_bind(topology, rank, 0));
        ck_assert_str_eq(pst__thread_cpus(own, sizeof own), place);
    }
    pst__topology_destroy(topology);
}
END_TEST

/* On a machine that is merely described nothing is bound, and that is no error. */
START_TEST(test_another_machine)
{
    pst_topology *topology = load("pack:1 core:1 pu:1", 1);
    char before[256];
    char own[256];
    char nodes[8];
    pst__thread_cpus(before, sizeof before);
    ck_assert(!pst__topology_is_here(topology));
    ck_assert(!pst__topology_bind(topology, 0, 0));
    ck_assert_int_eq(errno, 0);
    ck_assert(!pst__topology_bind_memory(topology, 0, own, sizeof own));
    ck_assert_int_eq(errno, 0);
    ck_assert(pst__topology_locate(topology, 0, own, sizeof own, nodes, sizeof nodes));
    ck_assert_str_eq(nodes, "");
    ck_assert_str_eq(pst__thread_cpus(own, sizeof own), before);
    pst__topology_destroy(topology);
}
END_TEST

/* An arena of pages, on this machine and as on another, plain and huge. */
START_TEST(test_memory)
{
    static const char *const machines[] = {NULL, "numa:2 pack:1 core:2 pu:1"};
    pst_topology *topology = load(machines[_i % 2], 4);
    const uintptr_t multiple =
        _i / 2 ? (uintptr_t)2 << 20 : (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int rank = 0; rank < 4; rank++) {
        const size_t bytes = (size_t)100000 * (size_t)(rank * rank * rank + 1);
        pst_arena arena;
        ck_assert(pst__arena_init(&arena, NULL, topology, rank, bytes, _i / 2));
        ck_assert_uint_eq((uintptr_t)arena.base % multiple, 0);
        size_t set = 0; /* counted first: an assertion a byte takes a minute */
        for (size_t i = 0; i < bytes; i++)
            set += arena.base[i] != 0;
        ck_assert_uint_eq(set, 0);
        pst__arena_touch(&arena, topology, rank);
        ck_assert(!arena.elsewhere);
        memset(arena.base, rank + 1, bytes);
        pst__arena_fini(&arena, NULL);
        ck_assert_ptr_null(arena.base);
    }
    pst__topology_destroy(topology);
}
END_TEST

/* More than any machine has: an error that names the node, where there is one. */
START_TEST(test_no_memory)
{
    pst_topology *topology = load(NULL, 1);
    pst_arena arena;
    pst_error err = PST_ERROR_INIT;
    const size_t much = SIZE_MAX / 4;
    ck_assert(!pst__arena_init(&arena, NULL, topology, 0, much, false));
    ck_assert(!pst__arena_init(&arena, NULL, topology, 0, SIZE_MAX - 1, true));
    ck_assert_int_eq(pst__arena_refuse(topology, 0, "a toy", much, &err), PST_ENOMEM);
    char known[160];
    snprintf(known, sizeof known, "no memory for a toy (%zu bytes)", much);
    ck_assert_int_eq(strncmp(err.text, known, strlen(known)), 0);
    pst__topology_destroy(topology);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("topology");
    TCase *all = tcase_create("topology");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, test_places_are_cut_to_size);
    tcase_add_test(all, test_many_ranks);
    tcase_add_test(all, test_numa_node);
    tcase_add_test(all, test_nonsense);
    tcase_add_test(all, test_this_machine);
    tcase_add_test(all, test_another_machine);
    tcase_add_loop_test(all, test_memory, 0, 4);
    tcase_add_test(all, test_no_memory);
    suite_add_tcase(suite, all);
    return suite;
}
