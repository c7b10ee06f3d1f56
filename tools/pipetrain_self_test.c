/* SPDX-License-Identifier: BSD-3-Clause */
/* pipetrain_self_test.c - what messages between the processes take, and whether all of
 * them are alike. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <penstock/transport.h>

#include "tools/pipetrain.h"
#include "tools/processes.h"
#include "tools/say.h"

enum { SPIN_ROUNDS = 300, SLEEP_ROUNDS = 100, LARGE_ROUNDS = 12, MOST_ROUNDS = 300 };
enum { SMALL = 8, MIB = 1 << 20, LARGEST = 4 * MIB };

/* From one process to one other; zeroed where it is itself. Seconds, bytes a second. */
typedef struct hop {
    double spinning;
    double sleeping;
    double bandwidth_1;
    double bandwidth_4;
} hop;

typedef struct self_test {
    pst_transport *t;
    sem_t done;
    char *out;
    char *in;
} self_test;

static double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void arrived(pst_transfer *transfer)
{
    sem_post(transfer->user);
}

static void wait_for_two(self_test *s, int sleeps)
{
    for (int i = 0; i < 2; i++)
        if (sleeps)
            while (sem_wait(&s->done) != 0)
                continue;
        else
            while (sem_trywait(&s->done) != 0)
                s->t->progress(s->t->self);
}

/* There `bytes`, and a few back; the seconds of a whole round. Negative: it failed. */
static double round_trip(self_test *s, int from, int to, size_t bytes, int sleeps)
{
    pst_transport *t = s->t;
    pst_transfer sent = {.done = arrived, .user = &s->done};
    pst_transfer got = {.done = arrived, .user = &s->done};
    const double start = clock_seconds();
    if (t->process == from) {
        t->receive(t->self, to, 1, s->in, SMALL, &got);
        t->send(t->self, to, 0, s->out, bytes, bytes, &sent);
        wait_for_two(s, sleeps);
    } else {
        t->receive(t->self, from, 0, s->in, bytes, &got);
        /* The answer goes out when all of it is here; two waits are for one each. */
        sem_post(&s->done);
        wait_for_two(s, sleeps);
        t->send(t->self, from, 1, s->out, SMALL, SMALL, &sent);
        sem_post(&s->done);
        wait_for_two(s, sleeps);
    }
    return sent.failed || got.failed ? -1 : clock_seconds() - start;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_trip(self_test *s, int from, int to, size_t bytes, int sleeps,
                          int rounds)
{
    double times[MOST_ROUNDS] = {0};
    for (int i = 0; i < rounds; i++) {
        times[i] = round_trip(s, from, to, bytes, sleeps);
        if (times[i] < 0)
            return -1;
    }
    qsort(times, (size_t)rounds, sizeof *times, compare);
    return times[rounds / 2];
}

static double bandwidth(double trip, double one_way, size_t bytes)
{
    return (double)bytes / (trip > one_way ? trip - one_way : trip);
}

/* Both processes of the pair call it; the result is the first one's. */
static hop measure(self_test *s, int from, int to)
{
    hop h;
    h.spinning = median_trip(s, from, to, SMALL, 0, SPIN_ROUNDS) / 2;
    h.sleeping = median_trip(s, from, to, SMALL, 1, SLEEP_ROUNDS) / 2;
    h.bandwidth_1 =
        bandwidth(median_trip(s, from, to, MIB, 0, LARGE_ROUNDS), h.spinning, MIB);
    h.bandwidth_4 = bandwidth(median_trip(s, from, to, LARGEST, 0, LARGE_ROUNDS),
                              h.spinning, LARGEST);
    return h;
}

/* Pairs one after the other, so that they don't disturb each other. */
static pst_status measure_all(self_test *s, hop *all, pst_error *err)
{
    pst_transport *t = s->t;
    const size_t count = (size_t)t->processes;
    hop *row = pst_allocate_array(NULL, count, sizeof *row);
    int *turns = pst_allocate_array(NULL, count, sizeof *turns);
    pst_status status = row && turns ? PST_OK : pst_error_no_memory(err, "hops", 0);
    for (int from = 0; from < t->processes; from++)
        for (int to = 0; to < t->processes && !status; to++) {
            if (from == to)
                continue;
            if (t->process == from || t->process == to) {
                const hop h = measure(s, from, to);
                if (t->process == from)
                    row[to] = h;
            }
            status = pst_transport_gather(t, &to, sizeof to, turns, err);
        }
    if (!status)
        status = pst_transport_gather(t, row, count * sizeof *row, all, err);
    pst_release(NULL, row);
    pst_release(NULL, turns);
    return status;
}

static void print_hops(const pst_transport *t, const hop *all)
{
    double latency = 0, rate = 0;
    printf("\nfrom    to  spinning us  sleeping us  1 MiB MB/s  4 MiB MB/s\n");
    for (int from = 0; from < t->processes; from++)
        for (int to = 0; to < t->processes; to++) {
            const hop *h = &all[from * t->processes + to];
            if (from == to)
                continue;
            printf("%4d  %4d  %11.2f  %11.2f  %10.0f  %10.0f\n", from, to,
                   1e6 * h->spinning, 1e6 * h->sleeping, 1e-6 * h->bandwidth_1,
                   1e-6 * h->bandwidth_4);
            latency = h->spinning > latency ? h->spinning : latency;
            rate = rate == 0 || h->bandwidth_4 < rate ? h->bandwidth_4 : rate;
        }
    printf("\nA wait that sleeps, as a worker's does after a while, takes the longer "
           "time.\nThe slowest pair, for pipesim, in seconds and bytes:\n");
    printf("--latency %.3g --bandwidth %.4g\n", latency, rate);
}

/* Each process's own, and whether they are all alike. */
static pst_status compare_all(const processes *p, pst_error *err)
{
    const pst_transport *t = p->transport;
    likeness *all = pst_allocate_array(NULL, (size_t)t->processes, sizeof *all);
    if (!all)
        return pst_error_no_memory(err, "processes", 0);
    const pst_status status = processes_likeness(p, all, err);
    int alike = 1;
    for (int i = 0; i < t->processes && !status && t->process == 0; i++) {
        printf("%s: Penstock %s, %s kernels; %s, %s kernels\n", t->where(t->self, i),
               all[i].version, all[i].kernels, all[i].config, all[i].core);
        alike = alike && memcmp(&all[i], &all[0], sizeof *all) == 0;
    }
    if (!alike)
        say_warning("the processes differ; weights will not be the same bit for bit as "
                    "on one of them");
    pst_release(NULL, all);
    return status;
}

static pst_status run(const processes *p, pst_error *err)
{
    pst_transport *t = p->transport;
    self_test s = {
        .t = t, .out = pst_allocate(NULL, LARGEST), .in = pst_allocate(NULL, LARGEST)};
    hop *all = pst_allocate_array(NULL, (size_t)t->processes * (size_t)t->processes,
                                  sizeof *all);
    sem_init(&s.done, 0, 0);
    pst_status status = all && s.out && s.in
                            ? PST_OK
                            : pst_error_no_memory(err, "messages", 2ull * LARGEST);
    if (!status)
        status = compare_all(p, err);
    if (!status)
        status = measure_all(&s, all, err);
    if (!status && t->process == 0)
        print_hops(t, all);
    sem_destroy(&s.done);
    pst_release(NULL, s.out);
    pst_release(NULL, s.in);
    pst_release(NULL, all);
    return status;
}

int pipetrain_self_test(void)
{
    const pst_env env = {.log = say_log};
    pst_error err = PST_ERROR_INIT;
    processes own = {.leads = 0};
    if (processes_join(&env, &own, &err) != PST_OK)
        return say_failure(&err);
    if (own.transport == NULL) {
        printf(
            "pipetrain runs alone: no launcher of MPI has started it with others.\n");
        return 0;
    }
    if (own.leads)
        printf("%d processes, by %s\n", own.transport->processes, own.launch.name());
    if (run(&own, &err) != PST_OK)
        return processes_fail(&own, say_failure(&err), 1);
    processes_leave(&own);
    return 0;
}
