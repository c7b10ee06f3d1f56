/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_mutants.c - lists with a few cells moved: those that the checker takes, the
 * runtime runs to the right results; the others it refuses to load.
 *
 * PST_TEST_CASES in the environment gives the number of cases (4,000).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/registry.h>

#include "tests/stages/toy.h"
#include "tests/suite.h"

static const struct {
    const char *name;
    int ranks, microbatches, chunks;
} seeds[] = {
    {"gpipe", 3, 4, 1},      {"1f1b", 4, 5, 1},           {"zb-h1", 3, 5, 1},
    {"zb-h2", 4, 6, 1},      {"interleaved", 2, 4, 2},    {"zb-v", 3, 5, 2},
    {"looped-bfs", 4, 3, 2}, {"interleaved-zb", 2, 3, 3}, {"gis", 2, 5, 2},
    {"eager-1f1b", 3, 6, 1}, {"hanayo", 2, 3, 4},         {"bpipe", 4, 8, 1},
    {"bpipe", 6, 12, 1},     {"pipedream", 3, 6, 1},      {"pipedream-2bw", 3, 9, 1},
    {"seq1f1b", 3, 3, 1},
};

static toy stages;

/* Marsaglia's xorshift64. */
static uint64_t state = 88172645463325252u;

static size_t below(size_t count)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 33) % count;
}

static pst_schedule *make(int seed)
{
    const pst_shape shape = {.ranks = seeds[seed].ranks,
                             .microbatches = seeds[seed].microbatches,
                             .chunks = seeds[seed].chunks};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *made = NULL;
    pst_schedule_create(NULL, seeds[seed].name, &shape, &made, &err);
    ck_assert_msg(made != NULL, "%s", err.text);
    return made;
}

/* Up to three cells of `row`, each to some place up to four cells away. */
static void move_cells(pst_action *row, size_t count)
{
    for (size_t moves = 1 + below(3); moves > 0; moves--) {
        const size_t from = below(count), far = 1 + below(4);
        const size_t to = below(2) == 0        ? (from > far ? from - far : 0)
                          : from + far < count ? from + far
                                               : count - 1;
        const pst_action moved = row[from];
        if (from < to)
            memmove(row + from, row + from + 1, (to - from) * sizeof *row);
        else
            memmove(row + to + 1, row + to, (from - to) * sizeof *row);
        row[to] = moved;
    }
}

static pst_schedule *mutate(const pst_schedule *valid)
{
    enum { CELLS = 160 };
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder = NULL;
    pst_schedule *mutant = NULL;
    const size_t ranks = (size_t)pst_schedule_ranks(valid), changed = below(ranks);
    pst_schedule_builder_create_like(NULL, valid, &builder, &err);
    for (size_t rank = 0; rank < ranks; rank++) {
        size_t count;
        pst_action row[CELLS];
        const pst_action *old = pst_schedule_row(valid, (int)rank, &count);
        ck_assert_uint_le(count, CELLS);
        memcpy(row, old, count * sizeof *row);
        if (rank == changed || below(3) == 0)
            move_cells(row, count);
        for (size_t i = 0; i < count; i++)
            pst_schedule_builder_append(builder, (int)rank, row[i], &err);
    }
    pst_schedule_builder_finish(builder, "mutant", NULL, &mutant, &err);
    ck_assert_msg(mutant != NULL, "%s", err.text);
    return mutant;
}

static pst_pipeline *pipeline_for(const pst_schedule *schedule)
{
    int places[TOY_STAGES];
    for (int stage = 0; stage < pst_schedule_stages(schedule); stage++)
        places[stage] = pst_schedule_rank_of(schedule, stage);
    toy_init(&stages, &(toy_shape){.stages = pst_schedule_stages(schedule),
                                   .ranks = pst_schedule_ranks(schedule),
                                   .rank_of_stage = places,
                                   .exact = true,
                                   .slices = pst_schedule_slices(schedule)});
    return toy_create(&stages, NULL, NULL);
}

/* 1: it was run. */
static int try_mutant(pst_pipeline *pipeline, const pst_schedule *mutant, int iteration)
{
    pst_error err = PST_ERROR_INIT;
    int program = -1;
    if (pst_schedule_check(NULL, mutant, &err) != PST_OK) {
        ck_assert_int_ne(pst_pipeline_load(pipeline, mutant, &program, NULL), PST_OK);
        return 0;
    }
    program = toy_load(pipeline, mutant);
    if (pst_schedule_updates(mutant) == 0)
        toy_run(&stages, pipeline, program, pst_schedule_microbatches(mutant),
                iteration);
    else /* no gradient is left to look at */
        ck_assert_msg(pst_pipeline_run(pipeline, program, 0, iteration, &err) == PST_OK,
                      "%s", err.text);
    return 1;
}

START_TEST(what_is_accepted_runs)
{
    const char *wanted = getenv("PST_TEST_CASES");
    const int kinds = (int)(sizeof seeds / sizeof *seeds);
    const int cases = wanted != NULL ? atoi(wanted) : 4000;
    int ran = 0;
    for (int kind = 0; kind < kinds; kind++) {
        pst_schedule *valid = make(kind);
        pst_pipeline *pipeline = pipeline_for(valid);
        for (int k = kind; k < cases; k += kinds) {
            pst_schedule *mutant = mutate(valid);
            ran += try_mutant(pipeline, mutant, k);
            pst_schedule_destroy(mutant);
        }
        pst_pipeline_destroy(pipeline);
        pst_schedule_destroy(valid);
    }
    /* Enough of both, or the test shows nothing. */
    ck_assert_int_gt(ran, cases / 10);
    ck_assert_int_lt(ran, cases * 9 / 10);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("mutants");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 240);
    tcase_add_test(all, what_is_accepted_runs);
    suite_add_tcase(suite, all);
    return suite;
}
