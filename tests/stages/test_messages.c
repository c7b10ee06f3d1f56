/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_messages.c - messages of any size arrive whole, and no action of the sender
 * comes between a message and who waits for it.
 */
#include <check.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/registry.h>

#include "tests/stages/toy.h"
#include "tests/suite.h"

/* ---- sizes ---------------------------------------------------------------- */

enum { STAGES = 4, MICROBATCHES = 8, MIB = 1 << 20 };

/* Bytes modulo 256: y = 3 x + stage, and back dx = 5 dy + stage. */
typedef struct net {
    size_t bytes;
    size_t stride; /* between the bytes that are looked at                    */
    uint64_t loss[MICROBATCHES];
    uint64_t gradient[STAGES][MICROBATCHES];
} net;

/* FNV-1a of the bytes that count, the last one with them. */
static uint64_t hash(const net *n, const unsigned char *bytes)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t k = 0; k < n->bytes; k += n->stride)
        sum = (sum ^ bytes[k]) * 0x100000001b3u;
    return (sum ^ bytes[n->bytes - 1]) * 0x100000001b3u;
}

static void map(const net *n, unsigned char *to, const unsigned char *from, int factor,
                int stage)
{
    for (size_t k = 0; k < n->bytes; k += n->stride)
        to[k] = (unsigned char)(factor * from[k] + stage);
    to[n->bytes - 1] = (unsigned char)(factor * from[n->bytes - 1] + stage);
}

static pst_status wrong_size(const pst_work *work, pst_error *err)
{
    return pst_error_set(err, PST_ENUMERIC, "stage %d got %zu and %zu bytes",
                         work->stage, work->input_bytes, work->output_grad_bytes);
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    net *n = self;
    unsigned char *out = work->output;
    if (work->stage > 0 && work->input_bytes != n->bytes)
        return wrong_size(work, err);
    if (work->stage == STAGES - 1) {
        n->loss[work->microbatch] = hash(n, work->input);
    } else if (work->stage > 0) {
        map(n, out, work->input, 3, work->stage);
    } else {
        for (size_t k = 0; k < n->bytes; k += n->stride)
            out[k] = (unsigned char)(k * 7 + k / 251 + (size_t)work->microbatch);
        out[n->bytes - 1] = (unsigned char)(200 + work->microbatch);
    }
    return PST_OK;
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    net *n = self;
    if (work->stage < STAGES - 1 && work->output_grad_bytes != n->bytes)
        return wrong_size(work, err);
    if (work->stage < STAGES - 1)
        n->gradient[work->stage][work->microbatch] = hash(n, work->output_grad);
    if (work->stage == STAGES - 1)
        map(n, work->input_grad, work->input, 11, work->microbatch);
    else if (work->stage > 0)
        map(n, work->input_grad, work->output_grad, 5, work->stage);
    return PST_OK;
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    (void)work;
    (void)err;
    return PST_OK;
}

/* One iteration of a list with STAGES stages. */
static void run_list(net *n, const pst_schedule *schedule)
{
    pst_stage stage[STAGES];
    int rank_of_stage[STAGES], program;
    pst_pipeline *pipeline = NULL;
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst_schedule_stages(schedule), STAGES);
    for (int s = 0; s < STAGES; s++) {
        rank_of_stage[s] = pst_schedule_rank_of(schedule, s);
        stage[s] = (pst_stage){.self = n,
                               .input_bytes = s > 0 ? n->bytes : 0,
                               .output_bytes = s < STAGES - 1 ? n->bytes : 0,
                               .input_held = PST_HELD_TO_BACKWARD_INPUT,
                               .forward = forward,
                               .backward_input = backward_input,
                               .backward_weight = backward_weight};
    }
    pst_pipeline_create(NULL, stage, STAGES, rank_of_stage,
                        pst_schedule_ranks(schedule), NULL, &pipeline, &err);
    ck_assert_msg(pipeline != NULL, "%s", err.text);
    pst_pipeline_load(pipeline, schedule, &program, &err);
    for (int i = 0; i < 2 && err.status == PST_OK; i++)
        pst_pipeline_run(pipeline, program, 0, i, &err);
    ck_assert_msg(err.status == PST_OK, "%zu bytes: %s", n->bytes, err.text);
    pst_pipeline_destroy(pipeline);
}

static pst_schedule *make_list(const char *kind, int ranks, int microbatches)
{
    const pst_shape shape = {
        .ranks = ranks, .chunks = STAGES / ranks, .microbatches = microbatches};
    pst_schedule *schedule = NULL;
    pst_error err = PST_ERROR_INIT;
    pst_schedule_create(NULL, kind, &shape, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

/* What one rank computes, without messages. */
static void run_alone(net *n, int microbatches)
{
    pst_schedule *alone = make_list("interleaved", 1, microbatches);
    run_list(n, alone);
    pst_schedule_destroy(alone);
    for (int b = 0; b < microbatches; b++)
        ck_assert(n->loss[b] != 0 && n->gradient[0][b] != 0);
}

static void compare_sizes(const char *kind, int ranks, int microbatches, size_t bytes)
{
    static net alone, piped;
    alone = piped = (net){.bytes = bytes, .stride = 1 + bytes / MIB * 61};
    pst_schedule *schedule = make_list(kind, ranks, microbatches);
    run_alone(&alone, microbatches);
    run_list(&piped, schedule);
    ck_assert_msg(memcmp(&alone, &piped, sizeof alone) == 0,
                  "%s of %d ranks, %zu bytes: another result than one rank", kind,
                  ranks, bytes);
    pst_schedule_destroy(schedule);
}

/* Around where transports change from sending at once to waiting for the receiver. */
static const size_t sizes[] = {1, 1024, 4095, 4096, 4097, 65536, MIB};

START_TEST(test_sizes)
{
    compare_sizes("gpipe", 4, MICROBATCHES, sizes[_i]);
    compare_sizes("1f1b", 4, MICROBATCHES, sizes[_i]);
    compare_sizes("interleaved", 2, MICROBATCHES, sizes[_i]);
    compare_sizes("zb-v", 2, MICROBATCHES, sizes[_i]);
}
END_TEST

START_TEST(test_64_mib)
{
    compare_sizes("interleaved", 2, 2, (size_t)64 * MIB);
}
END_TEST

/* ---- order ---------------------------------------------------------------- */

enum { RANKS = 4 };

/*
 * 1F1B where the next action of a sender does not return before its receiver began:
 *
 *     rank 1       F0 ...
 *     rank 0   F0  F1 .....]      F1 returns when F0 of rank 1 has begun
 *
 * and B0 likewise, whose sender on rank r goes on with the forward of microbatch p - r.
 * A runtime that handed messages over behind the next action would stand still.
 */
typedef struct gates {
    sem_t forward_began[RANKS]; /* F0 of the rank                              */
    sem_t backward_began[RANKS];
} gates;

static void pass(sem_t *gate)
{
    while (sem_wait(gate) != 0)
        continue;
}

static pst_status forward_at_gate(void *self, pst_work *work, pst_error *err)
{
    gates *g = self;
    const int rank = work->rank;
    (void)err;
    if (work->microbatch == 0)
        sem_post(&g->forward_began[rank]);
    if (work->microbatch == 1 && rank + 1 < RANKS)
        pass(&g->forward_began[rank + 1]);
    if (work->microbatch == RANKS - rank && rank > 0)
        pass(&g->backward_began[rank - 1]);
    return PST_OK;
}

static pst_status backward_at_gate(void *self, pst_work *work, pst_error *err)
{
    gates *g = self;
    (void)err;
    if (work->microbatch == 0)
        sem_post(&g->backward_began[work->rank]);
    return PST_OK;
}

static const pst_trace_event *event_of(const pst_pipeline *pipeline, int rank, int op,
                                       uint32_t microbatch)
{
    size_t count;
    const pst_trace_event *event = pst_pipeline_trace(pipeline, rank, &count);
    for (size_t i = 0; i < count; i++)
        if (event[i].op == op && event[i].microbatch == microbatch)
            return &event[i];
    ck_abort_msg("rank %d has no such event", rank);
    return NULL;
}

/* What the gates force, as the trace tells it. */
static void check_trace(const pst_pipeline *p)
{
    for (int k = 1; k < RANKS; k++) {
        const pst_trace_event *first = event_of(p, k, PST_OP_FORWARD, 0);
        ck_assert_uint_ge(first->start_ns,
                          event_of(p, k - 1, PST_OP_FORWARD, 0)->end_ns);
        ck_assert_uint_le(first->start_ns,
                          event_of(p, k - 1, PST_OP_FORWARD, 1)->end_ns);
        const pst_trace_event *back = event_of(p, k - 1, PST_OP_BACKWARD, 0);
        ck_assert_uint_ge(back->start_ns, event_of(p, k, PST_OP_BACKWARD, 0)->end_ns);
        ck_assert_uint_le(
            back->start_ns,
            event_of(p, k, PST_OP_FORWARD, (uint32_t)(RANKS - k))->end_ns);
    }
}

START_TEST(test_nothing_comes_before_a_message)
{
    static gates g;
    pst_stage stage[RANKS];
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = NULL;
    pst_schedule *schedule = toy_named("1f1b", RANKS, MICROBATCHES);
    int rank_of_stage[RANKS], program = -1;
    for (int r = 0; r < RANKS; r++) {
        rank_of_stage[r] = r;
        ck_assert_int_eq(sem_init(&g.forward_began[r], 0, 0), 0);
        ck_assert_int_eq(sem_init(&g.backward_began[r], 0, 0), 0);
        stage[r] = (pst_stage){.self = &g,
                               .input_bytes = r > 0 ? 64 : 0,
                               .output_bytes = r < RANKS - 1 ? 64 : 0,
                               .forward = forward_at_gate,
                               .backward_input = backward_at_gate};
    }
    pst_pipeline_create(NULL, stage, RANKS, rank_of_stage, RANKS,
                        &(pst_pipeline_options){.watchdog_seconds = 30}, &pipeline,
                        &err);
    ck_assert_msg(pipeline != NULL, "%s", err.text);
    pst_pipeline_load(pipeline, schedule, &program, &err);
    pst_pipeline_run(pipeline, program, 0, 0, &err);
    ck_assert_msg(err.status == PST_OK, "%s", err.text);
    check_trace(pipeline);
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("messages");
    TCase *all = tcase_create("messages");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, test_sizes, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(all, test_64_mib);
    tcase_add_test(all, test_nothing_comes_before_a_message);
    suite_add_tcase(suite, all);
    return suite;
}
