/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_schedule.c - does a run take as long as its simulation says?
 *
 * Stages whose every action lasts a time of its own, drawn from a seed that the
 * simulator is told after the run. Up to as many ranks as CPUs they spin, with more
 * ranks they sleep to a deadline; a sleeper wakes late by an amount that is measured on
 * gpipe and then known of all kinds, and the ratio without it is printed too. Then come
 * more ranks than CPUs whose actions use the CPU, against the larger of all work over
 * the CPUs and the critical path. Last, when each rank begins where F, I and W sleep
 * for one and the same time t: 1F1B's rank r should at r t, and the whole take what the
 * simulation says.
 *
 * Usage: bench_schedule [-p RANKS] [-m MICROBATCHES] [-t MILLISECONDS] [-r RUNS]
 *                       [-w spin|sleep|work|start] [KIND...]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <penstock/pipeline.h>
#include <penstock/registry.h>

enum { RUNS_AT_MOST = 99 };

typedef enum how { SPIN, SLEEP, WORK, START } how;

/* What callbacks read; set between runs. */
static struct {
    how how;
    double ns; /* duration of F, of I and of W: the mean, in START each          */
    uint64_t seed;
} timing;

static int runs = 5;
static pst_error error = PST_ERROR_INIT;

static void die(void)
{
    fprintf(stderr, "bench_schedule: %s\n", error.text);
    exit(1);
}

/* ---- durations ------------------------------------------------------------------- */

/* 0 .. 1, by splitmix64. */
static double draw(uint64_t key)
{
    key += 0x9e3779b97f4a7c15u;
    key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
    key = (key ^ key >> 27) * 0x94d049bb133111ebu;
    return (double)((key ^ key >> 31) >> 11) * 0x1p-53;
}

/* Of F, I or W: half the mean to three halves of it. */
static double single_ns(int op, int stage, uint32_t microbatch)
{
    if (timing.how == START)
        return timing.ns;
    const uint64_t key = ((uint64_t)op << 48) + ((uint64_t)stage << 32) + microbatch;
    return timing.ns * (0.5 + draw(timing.seed ^ key * 0xd1342543de82ef95u));
}

static double action_ns(pst_action action)
{
    if (action.op != PST_OP_BACKWARD)
        return single_ns(action.op, action.stage, action.microbatch);
    return single_ns(PST_OP_BACKWARD_INPUT, action.stage, action.microbatch) +
           single_ns(PST_OP_BACKWARD_WEIGHT, action.stage, action.microbatch);
}

/* ---- stages ------------------------------------------------------------------------
 */

static double clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static void pass_time(double ns)
{
    const clockid_t clock =
        timing.how == WORK ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const double end = clock_ns(clock) + ns;
    if (timing.how == SLEEP || timing.how == START) {
        const struct timespec deadline = {.tv_sec = (time_t)(end / 1e9),
                                          .tv_nsec = (long)fmod(end, 1e9)};
        clock_nanosleep(clock, TIMER_ABSTIME, &deadline, NULL);
        return;
    }
    while (clock_ns(clock) < end)
        continue;
}

static uint32_t unit_of(const pst_work *work)
{
    return (uint32_t)(work->microbatch * work->slices + work->slice);
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)err;
    pass_time(single_ns(PST_OP_FORWARD, work->stage, unit_of(work)));
    return PST_OK;
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)err;
    pass_time(single_ns(PST_OP_BACKWARD_INPUT, work->stage, unit_of(work)));
    return PST_OK;
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)err;
    pass_time(single_ns(PST_OP_BACKWARD_WEIGHT, work->stage, unit_of(work)));
    return PST_OK;
}

static void precise_timers(void *user, int rank)
{
    (void)user, (void)rank;
    prctl(PR_SET_TIMERSLACK, 1UL);
}

/* ---- one list ----------------------------------------------------------------------
 */

/* The list without pairs: a worker runs the two of a pair one after the other. */
static pst_schedule *without_pairs(const pst_schedule *schedule)
{
    pst_schedule_builder *builder;
    pst_schedule *single;
    if (pst_schedule_builder_create_like(NULL, schedule, &builder, &error) != PST_OK)
        die();
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++) {
            pst_action action = row[i];
            action.paired = 0;
            if (pst_schedule_builder_append(builder, rank, action, &error) != PST_OK)
                die();
        }
    }
    if (pst_schedule_builder_finish(builder, pst_schedule_name(schedule), NULL, &single,
                                    &error) != PST_OK)
        die();
    return single;
}

/* NULL: this kind does not take the shape, which is said. */
static pst_schedule *make_schedule(const char *kind, int ranks, int microbatches)
{
    const pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    pst_schedule *schedule;
    error = (pst_error)PST_ERROR_INIT;
    if (pst_schedule_create(NULL, kind, &shape, &schedule, &error) != PST_OK) {
        printf("%-16s %4d %5d  %s\n", kind, ranks, microbatches, error.text);
        return NULL;
    }
    pst_schedule *single = without_pairs(schedule);
    pst_schedule_destroy(schedule);
    return single;
}

static pst_pipeline *make_pipeline(const pst_schedule *schedule)
{
    const int stages = pst_schedule_stages(schedule);
    const int each = stages / pst_schedule_replicas(schedule);
    pst_stage *table = calloc((size_t)stages, sizeof *table);
    int *rank_of_stage = calloc((size_t)stages, sizeof *rank_of_stage);
    const pst_pipeline_options options = {.replicas = pst_schedule_replicas(schedule),
                                          .worker_start = precise_timers};
    pst_pipeline *pipeline = NULL;
    int program;
    if (!table || !rank_of_stage)
        exit(1);
    for (int stage = 0; stage < stages; stage++) {
        rank_of_stage[stage] = pst_schedule_rank_of(schedule, stage);
        table[stage] = (pst_stage){.input_bytes = stage % each > 0 ? 64 : 0,
                                   .output_bytes = stage % each < each - 1 ? 64 : 0,
                                   .weight_bytes = 64,
                                   .gradient_count = 16,
                                   .forward = forward,
                                   .backward_input = backward_input,
                                   .backward_weight = backward_weight};
    }
    if (pst_pipeline_create(NULL, table, stages, rank_of_stage,
                            pst_schedule_ranks(schedule), &options, &pipeline,
                            &error) != PST_OK ||
        pst_pipeline_load(pipeline, schedule, &program, &error) != PST_OK)
        die();
    free(rank_of_stage);
    free(table);
    return pipeline;
}

/* ---- what the clock adds ------------------------------------------------------------
 */

/* What was learnt of a run on one list and is used for others. */
typedef struct lateness {
    double action_ns; /* an action takes longer than it should                   */
    double hop_ns;    /* from the end of an action to what waited for it         */
} lateness;

static double late_duration(void *user, pst_action action)
{
    const lateness *late = user;
    const pst_op_description *op = pst_op_describe(action.op);
    if (!op->computes)
        return 0;
    return action_ns(action) + late->action_ns * (action.op == PST_OP_BACKWARD ? 2 : 1);
}

static double simulated_ns(const pst_schedule *schedule, const lateness *late)
{
    lateness own = *late;
    const pst_costs costs = {
        .duration = late_duration, .duration_user = &own, .latency = late->hop_ns};
    pst_simulation *simulation;
    if (pst_simulate(NULL, schedule, &costs, &simulation, &error) != PST_OK)
        die();
    const double makespan = simulation->makespan;
    pst_simulation_destroy(simulation);
    return makespan;
}

static double measured_ns(const pst_pipeline *pipeline, int ranks)
{
    uint64_t start = UINT64_MAX, end = 0;
    for (int rank = 0; rank < ranks; rank++) {
        size_t count;
        const pst_trace_event *event = pst_pipeline_trace(pipeline, rank, &count);
        for (size_t i = 0; i < count; i++) {
            start = event[i].start_ns < start ? event[i].start_ns : start;
            end = event[i].end_ns > end ? event[i].end_ns : end;
        }
    }
    return (double)(end - start);
}

static void run(pst_pipeline *pipeline)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    timing.seed = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
    if (pst_pipeline_run(pipeline, 0, 0, 0, &error) != PST_OK)
        die();
}

/* Mean lateness of the actions in the last run. */
static double action_lateness(const pst_pipeline *pipeline, int ranks)
{
    double sum = 0, singles = 0;
    for (int rank = 0; rank < ranks; rank++) {
        size_t count;
        const pst_trace_event *event = pst_pipeline_trace(pipeline, rank, &count);
        for (size_t i = 0; i < count; i++) {
            const pst_action action = {.op = event[i].op,
                                       .stage = event[i].stage,
                                       .microbatch = event[i].microbatch};
            if (!pst_op_describe(action.op)->computes)
                continue;
            sum += (double)(event[i].end_ns - event[i].start_ns) - action_ns(action);
            singles += action.op == PST_OP_BACKWARD ? 2 : 1;
        }
    }
    return sum / singles;
}

/* gpipe on as many ranks; then the hop that makes its simulation as long as it was. */
static lateness calibrate(int ranks, int microbatches)
{
    lateness late = {0, 0};
    pst_schedule *schedule = make_schedule("gpipe", ranks, microbatches);
    pst_pipeline *pipeline = make_pipeline(schedule);
    run(pipeline);
    late.action_ns = action_lateness(pipeline, ranks);
    const double measured = measured_ns(pipeline, ranks);
    double low = 0, high = timing.ns;
    for (int i = 0; i < 40; i++) {
        late.hop_ns = (low + high) / 2;
        *(simulated_ns(schedule, &late) < measured ? &low : &high) = late.hop_ns;
    }
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
    return late;
}

/* ---- reports -----------------------------------------------------------------------
 */

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

static double work_ns(const pst_schedule *schedule)
{
    double sum = 0;
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++)
            if (pst_op_describe(row[i].op)->computes)
                sum += action_ns(row[i]);
    }
    return sum;
}

/* What the list takes at least: the simulation, and on few CPUs all work. */
static double bound_ns(const pst_schedule *schedule, const lateness *late)
{
    const double simulated = simulated_ns(schedule, late);
    const double work = work_ns(schedule) / pst_cpu_budget();
    return timing.how == WORK && work > simulated ? work : simulated;
}

/* The larger deviation of the medians from 1 so far goes to *worst. */
static void report(const char *kind, int ranks, int microbatches, const lateness *late,
                   double *worst)
{
    static const lateness none = {0, 0};
    double plain[RUNS_AT_MOST], known[RUNS_AT_MOST], ms[RUNS_AT_MOST];
    pst_schedule *schedule = make_schedule(kind, ranks, microbatches);
    if (!schedule)
        return;
    pst_pipeline *pipeline = make_pipeline(schedule);
    for (int i = 0; i < runs; i++) {
        run(pipeline);
        const double measured = measured_ns(pipeline, ranks);
        ms[i] = measured / 1e6;
        plain[i] = measured / bound_ns(schedule, &none);
        known[i] = measured / bound_ns(schedule, late);
    }
    const double ratio = median(known, runs);
    printf("%-16s %4d %5d %10.2f %9.4f", kind, ranks, microbatches, median(ms, runs),
           median(plain, runs));
    if (timing.how == SLEEP)
        printf(" %9.4f", ratio);
    putchar('\n');
    fflush(stdout);
    if (fabs(ratio - 1) > fabs(*worst - 1))
        *worst = ratio;
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
}

static void report_all(how how, double ms, int ranks, int microbatches, char **kinds)
{
    static const char *const words[] = {"spins", "sleeps", "uses the CPU"};
    lateness late = {0, 0};
    double worst = 1;
    timing.how = how;
    timing.ns = ms * 1e6;
    printf("\neach action %s for %g to %g ms; medians of %d runs\n", words[how], ms / 2,
           1.5 * ms, runs);
    if (how == SLEEP) {
        late = calibrate(ranks, microbatches);
        printf("known from gpipe: an action is late by %.1f us, a hop takes %.1f us\n",
               late.action_ns / 1e3, late.hop_ns / 1e3);
    }
    printf("%-16s %4s %5s %10s %9s%s\n", "kind", "p", "m", "ms",
           how == WORK ? "of bound" : "of sim.", how == SLEEP ? "     known" : "");
    if (*kinds)
        for (; *kinds; kinds++)
            report(*kinds, ranks, microbatches, &late, &worst);
    else
        for (size_t i = 0; pst_schedule_kind_at(i); i++)
            report(pst_schedule_kind_at(i)->name, ranks, microbatches, &late, &worst);
    printf("farthest from 1: %.4f\n", worst);
}

/* When `rank` begins its first action, from the start of the whole run. */
static double first_start_ns(const pst_pipeline *pipeline, int rank, int ranks)
{
    uint64_t start = UINT64_MAX;
    size_t count;
    for (int r = 0; r < ranks; r++) {
        const pst_trace_event *event = pst_pipeline_trace(pipeline, r, &count);
        if (count > 0 && event->start_ns < start)
            start = event->start_ns;
    }
    const pst_trace_event *own = pst_pipeline_trace(pipeline, rank, &count);
    return count > 0 ? (double)(own->start_ns - start) : 0;
}

static void report_starts(double ms, int ranks, int microbatches)
{
    static const lateness none = {0, 0};
    enum { MOST_RANKS = 256 };
    static double start[MOST_RANKS][RUNS_AT_MOST], whole[RUNS_AT_MOST];
    timing.how = START;
    timing.ns = ms * 1e6;
    pst_schedule *schedule = make_schedule("1f1b", ranks, microbatches);
    if (!schedule || ranks > MOST_RANKS)
        return;
    pst_pipeline *pipeline = make_pipeline(schedule);
    for (int i = 0; i < runs; i++) {
        run(pipeline);
        for (int rank = 0; rank < ranks; rank++)
            start[rank][i] = first_start_ns(pipeline, rank, ranks);
        whole[i] = measured_ns(pipeline, ranks);
    }
    printf("\n1f1b, p %d, m %d; F, I and W sleep for %g ms; medians of %d runs\n",
           ranks, microbatches, ms, runs);
    for (int rank = 0; rank < ranks; rank++) {
        const double found = median(start[rank], runs) / 1e6;
        printf("F0 on rank %d starts at %8.3f ms", rank, found);
        if (rank > 0)
            printf(", %+.2f %%", 100 * (found / (rank * ms) - 1));
        putchar('\n');
    }
    const double found = median(whole, runs), simulated = simulated_ns(schedule, &none);
    printf("makespan %.3f ms, simulated %.3f ms, %+.2f %%\n", found / 1e6,
           simulated / 1e6, 100 * (found / simulated - 1));
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
}

static void print_load(void)
{
    double load = 0;
    getloadavg(&load, 1);
    printf("%d CPUs, load average %.2f before\n", pst_cpu_budget(), load);
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"spin", "sleep", "work", "start"};
    static char *few[] = {"1f1b", "zb-h1", "interleaved", "dualpipev", NULL};
    int ranks = 0, microbatches = 0, only = -1, letter;
    double ms = 0;
    while ((letter = getopt(argc, argv, "p:m:t:r:w:")) != -1) {
        if (letter == 'p')
            ranks = atoi(optarg);
        else if (letter == 'm')
            microbatches = atoi(optarg);
        else if (letter == 't')
            ms = atof(optarg);
        else if (letter == 'r')
            runs = atoi(optarg);
        for (int i = 0; letter == 'w' && i <= START; i++)
            if (strcmp(optarg, words[i]) == 0)
                only = i;
        if (letter == '?' || (letter == 'w' && only < 0))
            return 2;
    }
    if (runs < 1 || runs > RUNS_AT_MOST)
        return 2;
    print_load();
    if (only == START) {
        report_starts(ms > 0 ? ms : 10, ranks > 0 ? ranks : 4,
                      microbatches > 0 ? microbatches : 8);
        return 0;
    }
    if (only >= 0) {
        ranks = ranks > 0 ? ranks : only == SPIN ? 2 : 8;
        microbatches = microbatches > 0 ? microbatches : 2 * ranks;
        ms = ms > 0 ? ms : only == SPIN ? 5 : only == SLEEP ? 20 : 0.2;
        report_all((how)only, ms, ranks, microbatches, argv + optind);
        return 0;
    }
    if (pst_cpu_budget() >= 2)
        report_all(SPIN, 5, 2, 8, argv + optind);
    report_all(SLEEP, 20, 8, 16, argc > optind ? argv + optind : few);
    report_all(WORK, 0.2, 64, 128, argc > optind ? argv + optind : few);
    report_starts(10, 4, 8);
    return 0;
}
