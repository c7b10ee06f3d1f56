/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_processes.c - a trainer over several processes, which are threads here: bits,
 * losses, logits and text are those of one process.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/model/support.h"
#include "tests/stages/loopback.h"
#include "tests/suite.h"

enum { MOST = 4, RANKS = 16, STEPS = 3, TEXT = 12, WINDOWS = 5, CONTEXT = 8 };

/* What a run leaves. */
typedef struct outcome {
    char digest[65];
    double losses[STEPS];
    double norm;
    double evaluated;
    int32_t text[TEXT];
} outcome;

typedef struct process {
    small how;
    int process_of_rank[RANKS];
    pthread_t thread;
    outcome out;
    pst_status status;
} process;

static void *train(void *argument)
{
    process *p = argument;
    int32_t ids[2 * WINDOWS * CONTEXT];
    int64_t tokens;
    pst_trainer *t = NULL;
    memset(&p->out, 0, sizeof p->out);
    p->status = small_trainer_try(&p->how, &t, NULL);
    for (int i = 0; i < STEPS && p->status == PST_OK; i++)
        p->out.losses[i] = step_of(t, &p->how, (uint64_t)i);
    random_ids(ids, 2 * WINDOWS * CONTEXT, 32, 9);
    if (p->status == PST_OK)
        p->status = pst_trainer_evaluate(t, WINDOWS, ids, ids + WINDOWS * CONTEXT,
                                         &p->out.evaluated, &tokens, NULL);
    p->out.text[0] = 3;
    if (p->status == PST_OK)
        p->status = pst_trainer_generate(t, p->out.text, 1, TEXT - 1, 0.9, 5, NULL);
    if (p->status == PST_OK)
        pst_trainer_digest(t, p->out.digest);
    pst_trainer_destroy(t);
    return NULL;
}

/* Rank r is in process `digit` r of mixture. */
static void compare(const small *how, int processes, unsigned mixture)
{
    static process all[MOST];
    process alone = {.how = *how};
    train(&alone);
    ck_assert_int_eq(alone.status, PST_OK);
    loopback *network = loopback_create(processes);
    for (int i = 0; i < processes; i++) {
        unsigned digits = mixture;
        all[i].how = *how;
        for (int rank = 0; rank < RANKS; rank++, digits /= (unsigned)processes)
            all[i].process_of_rank[rank] = (int)(digits % (unsigned)processes);
        all[i].how.transport = loopback_end(network, i);
        all[i].how.process_of_rank = all[i].process_of_rank;
        pthread_create(&all[i].thread, NULL, train, &all[i]);
    }
    for (int i = 0; i < processes; i++)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < processes; i++) {
        ck_assert_int_eq(all[i].status, PST_OK);
        ck_assert_str_eq(all[i].out.digest, alone.out.digest);
        ck_assert_int_eq(memcmp(&all[i].out, &alone.out, sizeof alone.out), 0);
    }
    loopback_destroy(network);
}

static const small lists[] = {
    {.schedule = "1f1b", .stages = 4, .team = 1, .optimizer = {.clip = 1}},
    {.schedule = "gpipe", .stages = 3, .team = 1, .model = {.dropout = 0.1f}},
    {.schedule = "zb-v", .stages = 4, .chunks = 2, .microbatches = 4, .team = 1},
    {.schedule = "dualpipe",
     .stages = 4,
     .chunks = 2,
     .microbatches = 8,
     .batch = 8,
     .team = 1},
    {.schedule = "1f1b", .stages = 2, .data_parallel = 3, .batch = 7, .team = 1},
    {.schedule = "zb-h1", .stages = 4, .data_parallel = 2, .team = 1, .delay_seed = 3},
    {.schedule = "seq1f1b", .stages = 2, .slices = 2, .team = 1},
    {.schedule = "bpipe", .stages = 4, .microbatches = 4, .team = 1},
    {.schedule = "pipedream",
     .stages = 4,
     .microbatches = 4,
     .team = 1,
     .model = {.untied = 1}},
};

START_TEST(all_is_as_in_one_process)
{
    for (int processes = 2; processes <= MOST; processes++)
        compare(&lists[_i], processes, 0x1234567u * (unsigned)(processes + _i));
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("processes");
    TCase *all = tcase_create("processes");
    tcase_set_timeout(all, 300);
    tcase_add_loop_test(all, all_is_as_in_one_process, 0,
                        (int)(sizeof lists / sizeof *lists));
    suite_add_tcase(suite, all);
    return suite;
}
