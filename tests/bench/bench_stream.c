/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_stream.c - what a hop and a token cost, beside what the machine allows.
 *
 * A hop: a message from one pinned, spinning thread to another through the ring and the
 * doorbell of a pipeline, beside a cache line that goes to and fro between the same
 * two. A token: through a stream of two empty stages on two workers, beside a plain
 * ring of pointers that publishes as many at once. Rounds of all kinds take turns, so
 * that a noisy machine is noisy for all; figures are medians over rounds.
 *
 * Usage: bench_stream [ROUNDS [TOKENS]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/stream.h>

#include "stages/doorbell.h"
#include "stages/ring.h"
#include "stages/thread.h"
#include "stages/topology.h"

enum { ROUNDS_AT_MOST = 1000, TRIPS = 4000, BATCH = 64, CAPACITY = 1024 };

static pst_error error = PST_ERROR_INIT;
static pst_topology *topology;
static uint64_t tokens = 2000000;

static void die(void)
{
    fprintf(stderr, "bench_stream: %s\n", error.text);
    exit(1);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double quantile(double *values, int count, double q)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[(int)(q * (count - 1))];
}

/* Run `other` on the second place and `mine` on the first; join. */
static void on_both(void (*mine)(void), void *(*other)(void *))
{
    pst_thread thread;
    if (pst__thread_start(&thread, other, NULL, "bench", &error) != PST_OK)
        die();
    pst__topology_bind(topology, 0, 0);
    mine();
    pst__thread_join(&thread);
}

/* ---- to and fro ------------------------------------------------------------ */

static double trip_ns[TRIPS];

/* Half a round trip for each of the trips. */
static void time_trips(void (*trip)(uint32_t))
{
    for (uint32_t i = 0; i < TRIPS; i++) {
        const uint64_t start = pst__now_ns();
        trip(i);
        trip_ns[i] = (double)(pst__now_ns() - start) / 2;
    }
}

static _Alignas(2 * PST__CACHE_LINE) pst_atomic_u32 line;

static void line_trip(uint32_t i)
{
    atomic_store_explicit(&line, 2 * i + 1, memory_order_release);
    while (atomic_load_explicit(&line, memory_order_acquire) != 2 * i + 2)
        pst__pause();
}

static void line_trips(void)
{
    time_trips(line_trip);
}

static void *line_echo(void *unused)
{
    pst__topology_bind(topology, 1, 0);
    for (uint32_t i = 0; i < TRIPS; i++) {
        while (atomic_load_explicit(&line, memory_order_acquire) != 2 * i + 1)
            pst__pause();
        atomic_store_explicit(&line, 2 * i + 2, memory_order_release);
    }
    return unused;
}

static pst_ring there, back;
static struct {
    _Alignas(2 * PST__CACHE_LINE) pst_doorbell bell;
} bells[2];

/* As worker.c: push, then a look at the receiver's doorbell. */
static void send(pst_ring *ring, uint32_t number, int from)
{
    const pst_message message = {.microbatch = number};
    pst__ring_push(ring, &message);
    pst__doorbell_ring(&bells[1 - from].bell, from);
}

static void receive(pst_ring *ring)
{
    pst_message message;
    while (!pst__ring_pop(ring, &message))
        while (pst__ring_is_empty(ring))
            pst__pause();
}

static void hop_trip(uint32_t i)
{
    send(&there, i, 0);
    receive(&back);
}

static void hop_trips(void)
{
    time_trips(hop_trip);
}

static void *hop_echo(void *unused)
{
    pst__topology_bind(topology, 1, 0);
    for (uint32_t i = 0; i < TRIPS; i++) {
        receive(&there);
        send(&back, i, 1);
    }
    return unused;
}

/* ---- a plain ring ---------------------------------------------------------- */

static _Alignas(2 * PST__CACHE_LINE) pst_atomic_u64 plain_tail;
static _Alignas(2 * PST__CACHE_LINE) pst_atomic_u64 plain_head;
static _Alignas(2 * PST__CACHE_LINE) void *plain_slot[CAPACITY];

/* What an empty stage does, the same for the plain ring and for the stream. */
static pst_status make(void *self, pst_stream_item *item, pst_error *err)
{
    (void)self, (void)err;
    item->end = item->number == tokens;
    return PST_OK;
}

static pst_status take(void *self, pst_stream_item *item, pst_error *err)
{
    (void)self, (void)item, (void)err;
    return PST_OK;
}

static volatile uintptr_t plain_sum;
static bool plain_calls; /* a function for each token, as a stream must               */
static pst_stream_function volatile plain_make = make;
static pst_stream_function volatile plain_take = take;

static void plain_fill(uint64_t from)
{
    pst_stream_item item = {0};
    for (uint64_t i = from; i < from + BATCH; i++) {
        item.number = i;
        if (plain_calls)
            plain_make(NULL, &item, NULL);
        plain_slot[i % CAPACITY] = (void *)(uintptr_t)i;
    }
}

static void plain_produce(void)
{
    uint64_t head = 0;
    for (uint64_t tail = 0; tail < tokens; tail += BATCH) {
        while (tail + BATCH - head > CAPACITY) {
            head = atomic_load_explicit(&plain_head, memory_order_acquire);
            if (tail + BATCH - head > CAPACITY)
                pst__pause();
        }
        plain_fill(tail);
        atomic_store_explicit(&plain_tail, tail + BATCH, memory_order_release);
    }
}

static void *plain_consume(void *unused)
{
    pst_stream_item item = {0};
    uintptr_t sum = 0;
    pst__topology_bind(topology, 1, 0);
    for (uint64_t head = 0; head < tokens;) {
        const uint64_t tail = atomic_load_explicit(&plain_tail, memory_order_acquire);
        if (tail == head)
            pst__pause();
        for (; head < tail; head++) {
            item.data = plain_slot[head % CAPACITY];
            sum += (uintptr_t)item.data;
            if (plain_calls)
                plain_take(NULL, &item, NULL);
        }
        atomic_store_explicit(&plain_head, head, memory_order_release);
    }
    plain_sum = sum;
    return unused;
}

static double plain_ns(bool calls)
{
    plain_calls = calls;
    atomic_store(&plain_tail, 0);
    atomic_store(&plain_head, 0);
    const uint64_t start = pst__now_ns();
    on_both(plain_produce, plain_consume);
    return (double)(pst__now_ns() - start) / (double)tokens;
}

/* ---- streams --------------------------------------------------------------- */

static pst_stream *open_stream(const pst_stream_stage *stages, int count,
                               const pst_stream_options *options)
{
    pst_stream *stream;
    if (pst_stream_create(NULL, stages, count, options, &stream, &error) != PST_OK)
        die();
    return stream;
}

static double stream_ns(pst_stream *stream)
{
    const uint64_t start = pst__now_ns();
    if (pst_stream_run(stream, NULL, &error) != PST_OK)
        die();
    return (double)(pst__now_ns() - start) / (double)tokens;
}

/* ---- reports --------------------------------------------------------------- */

enum { LINE_MEDIAN, LINE_P99, HOP_MEDIAN, HOP_P99, PLAIN, CALLS, TWO, FOUR, KINDS };

static double figures[KINDS][ROUNDS_AT_MOST];

static void one_round(int round, pst_stream *two, pst_stream *four)
{
    atomic_store(&line, 0);
    on_both(line_trips, line_echo);
    figures[LINE_MEDIAN][round] = quantile(trip_ns, TRIPS, 0.5);
    figures[LINE_P99][round] = quantile(trip_ns, TRIPS, 0.99);
    on_both(hop_trips, hop_echo);
    figures[HOP_MEDIAN][round] = quantile(trip_ns, TRIPS, 0.5);
    figures[HOP_P99][round] = quantile(trip_ns, TRIPS, 0.99);
    figures[PLAIN][round] = plain_ns(false);
    figures[CALLS][round] = plain_ns(true);
    figures[TWO][round] = stream_ns(two);
    figures[FOUR][round] = stream_ns(four);
}

static double median(int kind, int rounds)
{
    return quantile(figures[kind], rounds, 0.5);
}

/* The median of the ratios of each round: what is noise for both does not count. */
static double ratio(int above, int below, int rounds)
{
    static double ratios[ROUNDS_AT_MOST];
    for (int i = 0; i < rounds; i++)
        ratios[i] = figures[above][i] / figures[below][i];
    return quantile(ratios, rounds, 0.5);
}

static void report(int rounds)
{
    const double hop = ratio(HOP_MEDIAN, LINE_MEDIAN, rounds);
    const double plain = ratio(TWO, PLAIN, rounds);
    const double calls = ratio(TWO, CALLS, rounds);
    printf("medians of %d rounds; ratios within a round\n", rounds);
    printf("cache line, one way    %7.1f ns median, %7.1f ns p99\n",
           median(LINE_MEDIAN, rounds), median(LINE_P99, rounds));
    printf("ring and doorbell, hop %7.1f ns median, %7.1f ns p99, ratio %.2f\n",
           median(HOP_MEDIAN, rounds), median(HOP_P99, rounds), hop);
    printf("plain ring, batch %d   %7.2f ns a token\n", BATCH, median(PLAIN, rounds));
    printf("  with an empty call a side and token %7.2f ns\n", median(CALLS, rounds));
    printf(
        "stream of 2 empty stages, 2 workers, batch %d at most, capacity %d: %.2f ns "
        "a token, ratio %.2f to the plain ring, %.2f to the one with calls\n",
        BATCH, CAPACITY, median(TWO, rounds), plain, calls);
    printf("stream of 4 empty stages, 2 workers: %.2f ns a token\n",
           median(FOUR, rounds));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 15;
    if (argc > 2)
        tokens = strtoull(argv[2], NULL, 10);
    tokens = tokens / BATCH * BATCH;
    if (rounds < 1 || rounds > ROUNDS_AT_MOST || tokens == 0) {
        fprintf(stderr, "usage: bench_stream [ROUNDS [TOKENS]]\n");
        return 2;
    }
    if (pst_cpu_budget() < 2) {
        printf("bench_stream: one CPU; two threads that spin need two\n");
        return 0;
    }
    const pst_topology_options places = {.ranks = 2, .team = 1};
    if (pst__topology_create(NULL, &places, &topology, &error) != PST_OK)
        die();
    if (!pst__ring_init(&there, NULL, 4) || !pst__ring_init(&back, NULL, 4))
        return 1;
    const pst_stream_stage stages[] = {{.run = make},
                                       {.run = take, .with_previous = 1},
                                       {.run = take},
                                       {.run = take, .with_previous = 1}};
    const pst_stream_stage ends[] = {{.run = make}, {.run = take}};
    const pst_stream_options options = {.capacity = CAPACITY};
    pst_stream *two = open_stream(ends, 2, &options);
    pst_stream *four = open_stream(stages, 4, &options);
    for (int round = 0; round < rounds; round++)
        one_round(round, two, four);
    report(rounds);
    pst_stream_destroy(two);
    pst_stream_destroy(four);
    pst__ring_fini(&there, NULL);
    pst__ring_fini(&back, NULL);
    pst__topology_destroy(topology);
    return 0;
}
