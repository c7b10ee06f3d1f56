/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_network.c - does a run over several machines take as long as predicted?
 *
 * Started by a launcher of MPI. First it measures latency and bandwidth between two
 * machines. Then come pipelines of stages that sleep for given times and whose messages
 * have many bytes, for each schedule and each placement of ranks, in turn, several
 * times. For each: the median makespan; what pst_simulate() predicts with the measured
 * latency and bandwidth, for links that carry one message after the other and, where no
 * two ranks share a machine, as if each message were alone; and at the end, whether the
 * predicted order of all of them is the measured one.
 *
 * Machines are hosts; where there is one host only, each process counts as one.
 *
 * Usage: bench_network [-p RANKS] [-m MICROBATCHES] [-r RUNS] [--message-bytes N]
 *                      [--times F,I,W] [--place P,P,...]... [KIND...]
 *        Times are in milliseconds, of a rank and microbatch; a placement has a process
 * for each rank, as in 0,0,1,1, and may be given several times.
 */
#include <getopt.h>
#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <penstock/mpi.h>
#include <penstock/pipeline.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

enum {
    RUNS_AT_MOST = 99,
    RANKS_AT_MOST = 64,
    PLACES_AT_MOST = 16,
    CASES_AT_MOST = 256,
    TRIPS = 50,
    SMALL = 8,
    TRAIN = 8, /* messages one behind the other, to see what a link sustains     */
    TRAINS = 3
};

/* Predictions closer than this tell nothing of an order. */
static const double alike = 0.01;

static struct {
    double ns[3]; /* of F, I and W                                              */
    size_t bytes;
    int ranks;
    int microbatches;
    int runs;
} setting = {{20e6, 20e6, 20e6}, 1 << 20, 0, 8, 5};

typedef struct network {
    double latency_ns;
    double bytes_per_ns;
} network;

typedef struct one_case {
    const char *kind;
    const int *process_of_rank;
    const char *place; /* as given                                              */
    pst_schedule *schedule;
    double share; /* of a rank's time that each of its stages takes              */
    pst_pipeline *pipeline;
    double ms[RUNS_AT_MOST];
    double measured;  /* the median, ms                                          */
    double simulated; /* as if each message were alone, ms; 0: not asked         */
    double predicted; /* with links, ms                                          */
} one_case;

static pst_mpi *mpi;
static pst_transport *t;
static int *machine_of; /* [processes] */
static int machines;
static pst_error error = PST_ERROR_INIT;

static void die(void)
{
    fprintf(stderr, "bench_network: %s\n", error.text);
    if (mpi)
        pst_mpi_abort(mpi, 1);
    exit(1);
}

static void *get_memory(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory) {
        pst_error_set(&error, PST_ENOMEM, "no memory");
        die();
    }
    return memory;
}

static double clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

/* ---- the network ----------------------------------------------------------------- */

static sem_t done;

static void arrived(pst_transfer *transfer)
{
    sem_post(transfer->user);
}

static void barrier(void)
{
    int *all = get_memory((size_t)t->processes, sizeof *all);
    if (pst_transport_gather(t, &t->process, sizeof t->process, all, &error) != PST_OK)
        die();
    free(all);
}

/* `out` messages to the other process and `in` from it, all at once; tag 0 is for those
 * of the lower process. */
static void exchange(int other, int out, int in, void *sent, void *got,
                     size_t out_bytes, size_t in_bytes)
{
    static pst_transfer transfers[2 * TRAIN];
    const uint32_t tag = t->process > other;
    int count = 0;
    for (int i = 0; i < in; i++) {
        transfers[count] = (pst_transfer){.done = arrived, .user = &done};
        t->receive(t->self, other, 1 - tag, got, in_bytes, &transfers[count++]);
    }
    for (int i = 0; i < out; i++) {
        transfers[count] = (pst_transfer){.done = arrived, .user = &done};
        t->send(t->self, other, tag, sent, out_bytes, out_bytes, &transfers[count++]);
    }
    for (int i = 0; i < count; i++)
        while (sem_wait(&done) != 0)
            continue;
    for (int i = 0; i < count; i++)
        if (transfers[i].failed) {
            pst_error_set(&error, PST_EPEER, "%s", t->failure(t->self));
            die();
        }
}

/* Half a round trip of a few bytes. */
static double latency_ns(int other)
{
    double times[TRIPS], there = 0, back = 0;
    for (int i = 0; i < TRIPS; i++) {
        const double start = clock_ns();
        if (t->process < other)
            exchange(other, 1, 0, &there, &back, SMALL, SMALL);
        exchange(other, 0, 1, &there, &back, SMALL, SMALL);
        if (t->process > other)
            exchange(other, 1, 0, &there, &back, SMALL, SMALL);
        times[i] = (clock_ns() - start) / 2;
    }
    return median(times, TRIPS);
}

/* Messages of the pipeline's size from the lower process, or both ways at once. */
static double bytes_per_ns(int other, double latency, int both)
{
    const size_t bytes = setting.bytes;
    char *sent = get_memory(bytes, 1), *got = get_memory(bytes, 1);
    double times[TRAINS], word = 0;
    for (int i = 0; i < TRAINS; i++) {
        const int lower = t->process < other;
        exchange(other, lower, !lower, &word, &word, SMALL, SMALL);
        const double start = clock_ns();
        exchange(other, lower || both ? TRAIN : 0, lower && !both ? 0 : TRAIN, sent,
                 got, bytes, bytes);
        /* And a word back. */
        exchange(other, !lower, lower, &word, &word, SMALL, SMALL);
        times[i] = clock_ns() - start - 2 * latency;
    }
    free(sent);
    free(got);
    return (double)bytes * TRAIN / median(times, TRAINS);
}

/* Machines by the hosts that `where` names. */
static void find_machines(void)
{
    machine_of = get_memory((size_t)t->processes, sizeof *machine_of);
    for (int i = 0; i < t->processes; i++) {
        const char *host = strrchr(t->where(t->self, i), ' ');
        machine_of[i] = machines;
        for (int k = 0; k < i; k++)
            if (strcmp(strrchr(t->where(t->self, k), ' '), host) == 0)
                machine_of[i] = machine_of[k];
        machines += machine_of[i] == machines;
    }
    if (machines > 1)
        return;
    for (machines = 0; machines < t->processes; machines++)
        machine_of[machines] = machines;
}

/* Of process 0 and the first on another machine, as all learn it. */
static network measure_network(void)
{
    network found = {0, 0};
    int other = 1;
    while (machine_of[other] == machine_of[0])
        other++;
    if (t->process == 0 || t->process == other) {
        const int peer = t->process == 0 ? other : 0;
        found.latency_ns = latency_ns(peer);
        found.bytes_per_ns = bytes_per_ns(peer, found.latency_ns, 0);
        const double both = bytes_per_ns(peer, found.latency_ns, 1);
        if (t->process == 0)
            printf("from %s to %s: latency %.3f ms, %.1f Mbit/s; both ways at once "
                   "%.1f each\n",
                   t->where(t->self, 0), t->where(t->self, other),
                   found.latency_ns / 1e6, 8e3 * found.bytes_per_ns, 8e3 * both);
    }
    if (pst_transport_broadcast(t, 0, &found, sizeof found, &error) != PST_OK)
        die();
    return found;
}

/* What the clock of process `of` shows beyond that of process 0; both call it. */
static double clock_offset_ns(int of)
{
    double least = INFINITY, offset = 0, other = 0, own;
    for (int i = 0; i < TRIPS; i++) {
        if (t->process == of) {
            exchange(0, 0, 1, &own, &other, SMALL, SMALL);
            own = clock_ns();
            exchange(0, 1, 0, &own, &other, SMALL, SMALL);
            continue;
        }
        const double start = clock_ns();
        exchange(of, 1, 0, &own, &other, SMALL, SMALL);
        exchange(of, 0, 1, &own, &other, SMALL, SMALL);
        const double trip = clock_ns() - start;
        if (trip < least)
            offset = other - start - trip / 2;
        least = trip < least ? trip : least;
    }
    return offset;
}

/* [processes], known to process 0. */
static double *measure_clocks(void)
{
    double *offsets = get_memory((size_t)t->processes, sizeof *offsets);
    for (int i = 1; i < t->processes; i++) {
        if (t->process == 0 || t->process == i)
            offsets[i] = clock_offset_ns(i);
        barrier();
    }
    return offsets;
}

/* ---- stages ---------------------------------------------------------------------- */

static void pass_time(double ns)
{
    const double end = clock_ns() + ns;
    const struct timespec deadline = {.tv_sec = (time_t)(end / 1e9),
                                      .tv_nsec = (long)fmod(end, 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) != 0)
        continue;
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    (void)work, (void)err;
    pass_time(*(const double *)self * setting.ns[0]);
    return PST_OK;
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    (void)work, (void)err;
    pass_time(*(const double *)self * setting.ns[1]);
    return PST_OK;
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    (void)work, (void)err;
    pass_time(*(const double *)self * setting.ns[2]);
    return PST_OK;
}

static void precise_timers(void *user, int rank)
{
    (void)user, (void)rank;
    prctl(PR_SET_TIMERSLACK, 1UL);
}

/* False: the kind does not take this shape, which is said. */
static int make_schedule(one_case *c)
{
    const pst_shape shape = {.ranks = setting.ranks,
                             .microbatches = setting.microbatches};
    error = (pst_error)PST_ERROR_INIT;
    if (pst_schedule_create(NULL, c->kind, &shape, &c->schedule, &error) != PST_OK) {
        if (t->process == 0)
            printf("%s: %s\n", c->kind, error.text);
        return 0;
    }
    c->share = (double)setting.ranks * pst_schedule_replicas(c->schedule) /
               pst_schedule_stages(c->schedule) / pst_schedule_slices(c->schedule);
    return 1;
}

static void make_pipeline(one_case *c)
{
    const pst_schedule *schedule = c->schedule;
    const int stages = pst_schedule_stages(schedule);
    pst_stage *table = get_memory((size_t)stages, sizeof *table);
    int *rank_of_stage = get_memory((size_t)stages, sizeof *rank_of_stage);
    const pst_pipeline_options options = {.bind = PST_BIND_NONE,
                                          .replicas = pst_schedule_replicas(schedule),
                                          .worker_start = precise_timers,
                                          .transport = t,
                                          .process_of_rank = c->process_of_rank};
    int program;
    for (int s = 0; s < stages; s++) {
        const int first = pst_schedule_previous_stage(schedule, s) < 0;
        const int last = pst_schedule_next_stage(schedule, s) < 0;
        rank_of_stage[s] = pst_schedule_rank_of(schedule, s);
        table[s] = (pst_stage){.self = &c->share,
                               .input_bytes = first ? 0 : setting.bytes,
                               .output_bytes = last ? 0 : setting.bytes,
                               .weight_bytes = 64,
                               .gradient_count = 16,
                               .forward = forward,
                               .backward_input = backward_input,
                               .backward_weight = backward_weight};
    }
    if (pst_pipeline_create(NULL, table, stages, rank_of_stage, setting.ranks, &options,
                            &c->pipeline, &error) != PST_OK ||
        pst_pipeline_load(c->pipeline, schedule, &program, &error) != PST_OK)
        die();
    free(rank_of_stage);
    free(table);
}

/* The makespan, by the clock of process 0; known there. */
static double run_ms(const one_case *c, const double *offsets)
{
    double start = INFINITY, end = 0;
    barrier();
    if (pst_pipeline_run(c->pipeline, 0, 0, 0, &error) != PST_OK ||
        pst_pipeline_share_trace(c->pipeline, &error) != PST_OK)
        die();
    for (int rank = 0; rank < setting.ranks; rank++) {
        const double offset = offsets[c->process_of_rank[rank]];
        size_t count;
        const pst_trace_event *event = pst_pipeline_trace(c->pipeline, rank, &count);
        for (size_t i = 0; i < count; i++) {
            start = fmin(start, (double)event[i].start_ns - offset);
            end = fmax(end, (double)event[i].end_ns - offset);
        }
    }
    return (end - start) / 1e6;
}

/* ---- predictions ----------------------------------------------------------------- */

static int machine_of_rank(const one_case *c, int rank)
{
    return machine_of[c->process_of_rank[rank]];
}

/* 0: two ranks share a machine, so not every message goes over the network. */
static double simulated_ms(const one_case *c, const network *n, int linked)
{
    double *times[3];
    int host_of_rank[RANKS_AT_MOST];
    const size_t stages = (size_t)pst_schedule_stages(c->schedule);
    for (int a = 0; a < setting.ranks; a++) {
        host_of_rank[a] = machine_of_rank(c, a);
        for (int b = 0; b < a && !linked; b++)
            if (host_of_rank[a] == host_of_rank[b])
                return 0;
    }
    for (int k = 0; k < 3; k++) {
        times[k] = get_memory(stages, sizeof **times);
        for (size_t s = 0; s < stages; s++)
            times[k][s] = c->share * setting.ns[k];
    }
    const pst_network hosts = {.hosts = machines, .host_of_rank = host_of_rank};
    const pst_costs costs = {.forward = times[0],
                             .backward_input = times[1],
                             .backward_weight = times[2],
                             .latency = n->latency_ns,
                             .bandwidth = n->bytes_per_ns,
                             .message_bytes = (double)setting.bytes,
                             .network = linked ? &hosts : NULL};
    pst_simulation *simulation;
    if (pst_simulate(NULL, c->schedule, &costs, &simulation, &error) != PST_OK)
        die();
    const double makespan = simulation->makespan;
    pst_simulation_destroy(simulation);
    for (int k = 0; k < 3; k++)
        free(times[k]);
    return makespan / 1e6;
}

/* ---- reports --------------------------------------------------------------------- */

static int by_measured(const void *a, const void *b)
{
    return ascending(&((const one_case *)a)->measured,
                     &((const one_case *)b)->measured);
}

static void print_case(const one_case *c)
{
    printf("%-16s %-12s %9.1f", c->kind, c->place, c->measured);
    if (c->simulated > 0)
        printf(" %9.1f %7.3f", c->simulated, c->measured / c->simulated);
    else
        printf(" %9s %7s", "-", "-");
    printf(" %9.1f %7.3f\n", c->predicted, c->measured / c->predicted);
}

/* Pairs that one of the two predictions puts in another order than they have; `all`
 * counts those that it tells apart. The cases are in the measured order. */
static int count_swapped(const one_case *cases, int count, int linked, int *all)
{
    int swapped = 0;
    *all = 0;
    for (int i = 0; i < count; i++)
        for (int k = i + 1; k < count; k++) {
            const double a = linked ? cases[i].predicted : cases[i].simulated;
            const double b = linked ? cases[k].predicted : cases[k].simulated;
            if (a == 0 || b == 0 || fabs(a / b - 1) < alike)
                continue;
            ++*all;
            if (a < b)
                continue;
            swapped++;
            printf("%s predicts %s %s as slower than %s %s\n",
                   linked ? "the simulation with links" : "the one without",
                   cases[i].kind, cases[i].place, cases[k].kind, cases[k].place);
        }
    return swapped;
}

static void report(one_case *cases, int count)
{
    printf("\np %d, m %d; F, I, W sleep for %g, %g, %g ms; messages of %zu bytes; "
           "medians of %d, in turn\n",
           setting.ranks, setting.microbatches, setting.ns[0] / 1e6,
           setting.ns[1] / 1e6, setting.ns[2] / 1e6, setting.bytes, setting.runs);
    printf("%-16s %-12s %9s %9s %7s %9s %7s\n", "kind", "placement", "ms", "alone",
           "ratio", "links", "ratio");
    for (int i = 0; i < count; i++)
        print_case(&cases[i]);
    qsort(cases, (size_t)count, sizeof *cases, by_measured);
    printf("\nfrom the fastest:");
    for (int i = 0; i < count; i++)
        printf(" %s %s%s", cases[i].kind, cases[i].place, i < count - 1 ? "," : "\n");
    for (int linked = 0; linked < 2; linked++) {
        int all;
        const int swapped = count_swapped(cases, count, linked, &all);
        printf("%s: the predicted order is %sthe measured one; %d of %d pairs whose "
               "predictions differ by %g %% or more\n",
               linked ? "with links" : "without", swapped > 0 ? "not " : "",
               all - swapped, all, 100 * alike);
    }
}

/* ---- the command line ------------------------------------------------------------ */

static void refuse(const char *what)
{
    pst_error_set(&error, PST_EINVAL, "%s", what);
    die();
}

/* NULL text: about as many ranks on each process, one process after the other. */
static void read_place(const char *text, int *process_of_rank, char **name)
{
    const int ranks = setting.ranks;
    *name = get_memory((size_t)(12 * ranks), 1);
    for (int rank = 0; rank < ranks; rank++) {
        char *end = NULL;
        process_of_rank[rank] =
            text ? (int)strtol(text, &end, 10) : rank * t->processes / ranks;
        if (text && (end == text || *end != (rank < ranks - 1 ? ',' : 0)))
            refuse("--place is a process for each rank, as in 0,0,1,1");
        if (process_of_rank[rank] < 0 || process_of_rank[rank] >= t->processes)
            refuse("--place names a process that is not there");
        text = text ? end + 1 : NULL;
        sprintf(*name + strlen(*name), "%s%d", rank > 0 ? "," : "",
                process_of_rank[rank]);
    }
}

static int read_options(int argc, char **argv, const char **places)
{
    static const struct option known[] = {{"message-bytes", 1, NULL, 'b'},
                                          {"times", 1, NULL, 't'},
                                          {"place", 1, NULL, 'P'},
                                          {NULL, 0, NULL, 0}};
    int letter, count = 0;
    double *ns = setting.ns;
    while ((letter = getopt_long(argc, argv, "p:m:r:", known, NULL)) != -1)
        switch (letter) {
        case 'p':
            setting.ranks = atoi(optarg);
            break;
        case 'm':
            setting.microbatches = atoi(optarg);
            break;
        case 'r':
            setting.runs = atoi(optarg);
            break;
        case 'b':
            setting.bytes = strtoul(optarg, NULL, 10);
            break;
        case 't':
            if (sscanf(optarg, "%lf,%lf,%lf", &ns[0], &ns[1], &ns[2]) != 3)
                refuse("--times is as in 20,20,20");
            for (int i = 0; i < 3; i++)
                ns[i] *= 1e6;
            break;
        case 'P':
            if (count == PLACES_AT_MOST)
                refuse("too many placements");
            places[count++] = optarg;
            break;
        default:
            refuse("see the comment at the top of bench_network.c");
        }
    if (setting.ranks == 0)
        setting.ranks = t->processes;
    if (setting.ranks < 2 || setting.ranks > RANKS_AT_MOST || setting.runs < 1 ||
        setting.runs > RUNS_AT_MOST || setting.bytes < SMALL)
        refuse("too few or too many ranks, runs or bytes");
    return count;
}

static void measure(one_case *cases, int count)
{
    const network found = measure_network();
    double *offsets = measure_clocks();
    for (int run = -1; run < setting.runs; run++)
        for (int i = 0; i < count; i++) {
            const double ms = run_ms(&cases[i], offsets);
            if (run >= 0)
                cases[i].ms[run] = ms;
        }
    for (int i = 0; i < count; i++) {
        cases[i].measured = median(cases[i].ms, setting.runs);
        cases[i].simulated = simulated_ms(&cases[i], &found, 0);
        cases[i].predicted = simulated_ms(&cases[i], &found, 1);
    }
    free(offsets);
    if (t->process == 0)
        report(cases, count);
}

int main(int argc, char **argv)
{
    static char *usual[] = {"gpipe",       "1f1b",           "zb-h1", "zb-v",
                            "interleaved", "interleaved-zb", NULL};
    static one_case cases[CASES_AT_MOST];
    static int process_of_rank[PLACES_AT_MOST][RANKS_AT_MOST];
    static const char *places[PLACES_AT_MOST];
    char *names[PLACES_AT_MOST];
    const pst_env env = {.log = NULL};
    setenv("UCX_RNDV_THRESH", "64k", 0); /* see stages/mpi.h */
    if (pst_mpi_open(&env, &mpi, &error) != PST_OK)
        die();
    t = pst_mpi_transport(mpi);
    if (t->processes < 2) {
        printf("bench_network measures between processes that a launcher of MPI has "
               "started, as in 'mpirun -np 2 bench_network'\n");
        pst_mpi_close(mpi);
        return 0;
    }
    sem_init(&done, 0, 0);
    find_machines();
    int place_count = read_options(argc, argv, places), count = 0;
    place_count = place_count > 0 ? place_count : 1;
    for (int i = 0; i < place_count; i++)
        read_place(places[i], process_of_rank[i], &names[i]);
    for (char **kind = argc > optind ? argv + optind : usual; *kind; kind++)
        for (int i = 0; i < place_count && count < CASES_AT_MOST; i++) {
            cases[count] = (one_case){.kind = *kind,
                                      .process_of_rank = process_of_rank[i],
                                      .place = names[i]};
            if (make_schedule(&cases[count]))
                make_pipeline(&cases[count++]);
        }
    measure(cases, count);
    for (int i = 0; i < count; i++) {
        pst_pipeline_destroy(cases[i].pipeline);
        pst_schedule_destroy(cases[i].schedule);
    }
    for (int i = 0; i < place_count; i++)
        free(names[i]);
    free(machine_of);
    pst_mpi_close(mpi);
    return 0;
}
