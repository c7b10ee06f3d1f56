/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pipeline.c - what pipelines compute, when, where and in whose memory: every
 * list gives the same bits.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/stages/toy.h"
#include "tests/suite.h"

static toy one;
static toy two;

/* ---- results and traces -------------------------------------------------- */

static bool is_event(const pst_trace_event *event, const pst_action *action, int rank,
                     int64_t iteration)
{
    return event->op == action->op && event->stage == action->stage &&
           event->microbatch == action->microbatch && event->rank == (unsigned)rank &&
           event->iteration == (uint32_t)iteration && event->start_ns <= event->end_ns;
}

/* The events of each rank are its row, in order and one after the other. An assertion a
 * row: one of Check's is a system call. */
static void check_rows(const pst_pipeline *pipeline, const pst_schedule *schedule,
                       int64_t iteration)
{
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        size_t actions;
        const pst_trace_event *event = pst_pipeline_trace(pipeline, rank, &count);
        const pst_action *row = pst_schedule_row(schedule, rank, &actions);
        ck_assert_uint_eq(count, actions);
        size_t i = 0;
        while (i < count && is_event(&event[i], &row[i], rank, iteration) &&
               (i == 0 || event[i - 1].end_ns <= event[i].start_ns))
            i++;
        ck_assert_msg(i == count, "rank %d, event %zu is not as its row", rank, i);
    }
}

/* The event of B or of `op` for one stage and microbatch; NULL: none. */
static const pst_trace_event *find_event(const pst_pipeline *pipeline, int rank, int op,
                                         int stage, uint32_t microbatch)
{
    size_t count;
    const pst_trace_event *event = pst_pipeline_trace(pipeline, rank, &count);
    for (size_t i = 0; i < count; i++)
        if (event[i].stage == stage && event[i].microbatch == microbatch &&
            (event[i].op == op ||
             (event[i].op == PST_OP_BACKWARD && op != PST_OP_FORWARD)))
            return &event[i];
    return NULL;
}

static void comes_before(const pst_trace_event *first, const pst_trace_event *second)
{
    if (!first || !second || (first != second && first->end_ns > second->start_ns))
        ck_abort_msg("an action is missing, or came too early");
}

/* No action began before those that it depends on had ended. */
static void check_times(const toy *t, const pst_pipeline *p, int microbatches)
{
    const int *rank = t->rank_of_stage;
    for (int s = 0; s < t->shape.stages; s++)
        for (uint32_t b = 0; b < (uint32_t)microbatches; b++) {
            const pst_trace_event *f = find_event(p, rank[s], PST_OP_FORWARD, s, b);
            const pst_trace_event *i =
                find_event(p, rank[s], PST_OP_BACKWARD_INPUT, s, b);
            comes_before(f, i);
            comes_before(i, find_event(p, rank[s], PST_OP_BACKWARD_WEIGHT, s, b));
            if (s + 1 == t->shape.stages)
                continue;
            comes_before(f, find_event(p, rank[s + 1], PST_OP_FORWARD, s + 1, b));
            comes_before(find_event(p, rank[s + 1], PST_OP_BACKWARD_INPUT, s + 1, b),
                         i);
        }
}

static void load_run_check(toy *t, pst_pipeline *pipeline, pst_schedule *schedule,
                           int64_t iteration)
{
    const int microbatches = pst_schedule_microbatches(schedule);
    const int program = toy_load(pipeline, schedule);
    for (int i = 0; i < 2; i++) {
        toy_run(t, pipeline, program, microbatches, iteration + i);
        check_rows(pipeline, schedule, iteration + i);
        check_times(t, pipeline, microbatches);
    }
    pst_schedule_destroy(schedule);
}

/* All shapes of both names, on one pipeline for each number of ranks. */
static void run_named(const toy_shape *shape)
{
    toy_init(&one, shape);
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    for (int m = 1; m <= 9; m++) {
        load_run_check(&one, pipeline, toy_named("gpipe", shape->ranks, m), 10 * m);
        load_run_check(&one, pipeline, toy_named("1f1b", shape->ranks, m), 10 * m + 3);
    }
    pst_pipeline_destroy(pipeline);
}

START_TEST(test_named_exact)
{
    run_named(&(toy_shape){.stages = _i, .ranks = _i, .exact = true});
}
END_TEST

START_TEST(test_named_inexact)
{
    run_named(&(toy_shape){.stages = _i, .ranks = _i});
}
END_TEST

START_TEST(test_shorter_buffers)
{
    run_named(&(toy_shape){.stages = _i, .ranks = _i, .exact = true, .shrinks = true});
}
END_TEST

typedef struct mapping {
    int ranks;
    int stages;
    int rank_of_stage[8];
} mapping;

static const mapping mappings[] = {
    {1, 1, {0}},
    {1, 4, {0, 0, 0, 0}},
    {2, 4, {0, 0, 1, 1}},
    {2, 4, {0, 1, 0, 1}},
    {2, 4, {0, 1, 1, 0}},
    {3, 6, {0, 1, 2, 2, 1, 0}},
    {3, 6, {2, 0, 1, 0, 2, 1}},
    {4, 4, {3, 1, 0, 2}},
    {4, 8, {0, 1, 2, 3, 0, 1, 2, 3}},
    {3, 4, {0, 0, 0, 2}},
};

static toy_shape shape_of(const mapping *where)
{
    return (toy_shape){.stages = where->stages,
                       .ranks = where->ranks,
                       .rank_of_stage = where->rank_of_stage};
}

/* I and W apart, stages that share a rank, every order that is allowed. */
START_TEST(test_random_lists)
{
    toy_shape shape = shape_of(&mappings[_i]);
    for (int kind = 0; kind < 3; kind++) {
        shape.exact = kind == 1;
        shape.shrinks = kind == 2;
        toy_init(&one, &shape);
        pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
        for (int m = 1; m <= 7; m += 2)
            for (uint64_t seed = 0; seed < 6; seed++)
                load_run_check(&one, pipeline, toy_random(&one, m, seed, seed % 2),
                               (int64_t)seed);
        pst_pipeline_destroy(pipeline);
    }
}
END_TEST

START_TEST(test_random_slices)
{
    toy_shape shape = shape_of(&mappings[_i]);
    for (int kind = 0; kind < 3; kind++) {
        shape.exact = kind == 1;
        shape.shrinks = kind == 2;
        toy_init(&one, &shape);
        pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
        for (int slices = 1; slices <= 4; slices++)
            for (uint64_t seed = 0; seed < 6; seed++) {
                one.shape.slices = slices;
                load_run_check(
                    &one, pipeline,
                    toy_random(&one, slices * (1 + (int)seed % 3), seed, seed % 2),
                    (int64_t)seed);
            }
        pst_pipeline_destroy(pipeline);
    }
}
END_TEST

START_TEST(test_named_slices)
{
    toy_init(&one, &(toy_shape){.stages = _i, .ranks = _i});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    for (int slices = 1; slices <= 4; slices++)
        for (int m = 1; m <= 4; m++) {
            one.shape.slices = slices;
            load_run_check(&one, pipeline, toy_sliced(&one, _i, m), m);
        }
    pst_pipeline_destroy(pipeline);
}
END_TEST

static void run_by_hand(const int *rank_of_stage, int ranks, int stages,
                        const char *csv)
{
    for (int exact = 0; exact < 2; exact++) {
        toy_init(&one, &(toy_shape){.stages = stages,
                                    .ranks = ranks,
                                    .rank_of_stage = rank_of_stage,
                                    .exact = exact});
        pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
        load_run_check(&one, pipeline, toy_parse(csv), 5);
        pst_pipeline_destroy(pipeline);
    }
}

START_TEST(test_by_hand)
{
    /* W's late and descending */
    run_by_hand(NULL, 2, 2,
                "0F0,0F1,0F2,0F3,0I0,0I1,0I2,0I3,0W3,0W2,0W1,0W0\n"
                "1F0,1I0,1F1,1I1,1F2,1I2,1F3,1I3,1W3,1W1,1W2,1W0\n");
    /* some early, some waiting, B's between */
    run_by_hand(NULL, 2, 2,
                "0F0,0F1,0F2,0F3,0B2,0I1,0W1,0I3,0B0,0W3\n"
                "1F2,1I2,1F1,1F0,1I1,1W1,1F3,1B3,1B0,1W2\n");
    /* each rank asks for messages in another order than they were sent */
    run_by_hand(NULL, 3, 3,
                "0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0\n"
                "1F3,1F0,1F2,1F1,1B0,1B1,1B2,1B3\n"
                "2F1,2F2,2B2,2F0,2F3,2B0,2B3,2B1\n");
    /* two stages on a rank, next to each other and apart */
    run_by_hand((const int[]){0, 0, 1, 1}, 2, 4,
                "0F0,1F0,0F1,1F1,1I1,1I0,0I1,0W1,0I0,1W0,1W1,0W0\n"
                "2F0,3F0,2F1,3F1,3B1,2I1,3B0,2I0,2W0,2W1\n");
    run_by_hand((const int[]){0, 1, 0, 1}, 2, 4,
                "0F0,0F1,2F0,2F1,2B0,0B0,2B1,0B1\n"
                "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
}
END_TEST

/* Lists of a file, with their SEND, RECV and FSDP cells: those are passed over. */
START_TEST(test_cells_that_do_not_compute)
{
    toy_init(&one, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    pst_schedule *schedule = toy_parse("0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0\n"
                                       "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n");
    const int program = toy_load(pipeline, schedule);
    pst_schedule_destroy(schedule);
    toy_run(&one, pipeline, program, 1, 4);
    size_t count;
    pst_pipeline_trace(pipeline, 0, &count);
    ck_assert_uint_eq(count, 2);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* Programs of other lengths on one pipeline, in turn: nothing of one is left to the
 * next. */
START_TEST(test_programs_in_turn)
{
    int program[9];
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .shrinks = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    for (int m = 1; m <= 9; m++) {
        pst_schedule *schedule = toy_random(&one, m, (uint64_t)m, m % 2);
        program[m - 1] = toy_load(pipeline, schedule);
        ck_assert_int_eq(program[m - 1], m - 1);
        pst_schedule_destroy(schedule);
    }
    for (int i = 0; i < 90; i++) {
        const int m = 1 + i * i * 7 % 9;
        toy_run(&one, pipeline, program[m - 1], m, i);
    }
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_iterations_beyond_32_bits)
{
    toy_init(&one, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    load_run_check(&one, pipeline, toy_named("1f1b", 2, 3), ((int64_t)1 << 40) + 7);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_delays_change_nothing)
{
    const pst_pipeline_options options = {.delay_seed = (uint64_t)_i};
    toy_shape shape = shape_of(&mappings[_i % 2 ? 6 : 8]);
    toy_init(&one, &shape);
    pst_pipeline *pipeline = toy_create(&one, NULL, &options);
    for (uint64_t seed = 0; seed < 4; seed++)
        load_run_check(&one, pipeline,
                       toy_random(&one, 6, seed + 100 * (uint64_t)_i, seed % 2), 1);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_200_ranks)
{
    toy_init(&one, &(toy_shape){.stages = 200, .ranks = 200, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    load_run_check(&one, pipeline, toy_named("1f1b", 200, 8), 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST

START_TEST(test_many_short_runs)
{
    toy_init(&one, &(toy_shape){.stages = 2, .ranks = 2, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    pst_schedule *schedule = toy_named("1f1b", 2, 1);
    const int program = toy_load(pipeline, schedule);
    for (int i = 0; i < 2000; i++)
        toy_run(&one, pipeline, program, 1, i);
    pst_schedule_destroy(schedule);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- forward only -------------------------------------------------------- */

static void run_forward(pst_pipeline *pipeline, int program, int asked, int done)
{
    pst_error err = PST_ERROR_INIT;
    size_t count;
    memset(one.result, 0, sizeof one.result);
    ck_assert_int_eq(pst_pipeline_run(pipeline, program, asked, 2, &err), PST_OK);
    for (int b = 0; b < 5; b++)
        ck_assert_int_eq(one.result[b][0] != 0, b < done);
    for (int rank = 0; rank < 3; rank++) {
        pst_pipeline_trace(pipeline, rank, &count);
        ck_assert_uint_eq(count, (size_t)done);
    }
}

START_TEST(test_forward_only)
{
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    pst_schedule *schedule = toy_parse("0F0,0F1,0F2,0F3,0F4\n1F4,1F1,1F2,1F3,1F0\n"
                                       "2F0,2F1,2F2,2F3,2F4\n");
    const int program = toy_load(pipeline, schedule);
    pst_schedule_destroy(schedule);
    float *gradients = pst_pipeline_gradients(pipeline, 1);
    gradients[3] = 17;
    run_forward(pipeline, program, 0, 5);
    for (int asked = 1; asked <= 5; asked++)
        run_forward(pipeline, program, asked, asked);
    run_forward(pipeline, program, 0, 5);
    /* neither zeroed nor stepped */
    ck_assert(gradients[3] == 17);
    ck_assert_int_eq(one.self[0].reduced + one.self[0].stepped, 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- places -------------------------------------------------------------- */

typedef struct place_check {
    const pst_pipeline *pipeline;
    pst_atomic_u32 calls;
} place_check;

/* The calling thread's CPUs, from the kernel: "0,2-3". */
static void kernel_cpus(char *text, size_t size)
{
    cpu_set_t set;
    size_t length = 0;
    text[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && length < size; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set))
            continue;
        const int first = cpu;
        while (cpu + 1 < CPU_SETSIZE && CPU_ISSET((size_t)cpu + 1, &set))
            cpu++;
        length += (size_t)snprintf(text + length, size - length,
                                   first == cpu ? "%s%d" : "%s%d-%d", length ? "," : "",
                                   first, cpu);
    }
}

static pst_status check_place(void *user, int op, pst_work *work, pst_error *err)
{
    place_check *c = user;
    pst_worker_info info;
    char cpus[256];
    (void)op;
    pst_pipeline_worker(c->pipeline, work->rank, &info);
    kernel_cpus(cpus, sizeof cpus);
    if (strcmp(info.cpus, cpus) != 0)
        return pst_error_set(err, PST_EINVAL, "told %s, is on %s", info.cpus, cpus);
    if (info.thread_id != (int)syscall(SYS_gettid))
        return pst_error_set(err, PST_EINVAL, "told %d", info.thread_id);
    atomic_fetch_add(&c->calls, 1);
    return PST_OK;
}

/* How many ranks the kernel would not bind. */
static unsigned count_unbound(const pst_pipeline *pipeline, int ranks)
{
    unsigned unbound = 0;
    for (int rank = 0; rank < ranks; rank++) {
        pst_worker_info info;
        pst_pipeline_worker(pipeline, rank, &info);
        unbound += !info.bound;
        ck_assert_uint_ge(info.memory_bytes, 64);
    }
    return unbound;
}

static void run_in_places(const pst_pipeline_options *options, int ranks, bool binds)
{
    place_check c = {.calls = 0};
    toy_env memory;
    toy_env_init(&memory);
    toy_init(&one, &(toy_shape){.stages = ranks, .ranks = ranks, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, &memory.env, options);
    one.hook = check_place;
    one.user = &c;
    c.pipeline = pipeline;
    load_run_check(&one, pipeline, toy_named("1f1b", ranks, 4), 0);
    /* F, I, W of 4 microbatches, reduce and step, 2 iterations */
    ck_assert_uint_eq(c.calls, 2 * (4 * 3 + 2) * (unsigned)ranks);
    const unsigned unbound = count_unbound(pipeline, ranks);
    ck_assert_uint_eq(atomic_load(&memory.lines), binds && unbound);
    if (!binds)
        ck_assert_uint_eq(unbound, (unsigned)ranks);
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
}

START_TEST(test_places)
{
    const pst_pipeline_options free_ones = {.bind = PST_BIND_NONE};
    run_in_places(NULL, _i, true);
    run_in_places(&free_ones, _i, false);
}
END_TEST

/* A machine with more CPUs than there can be here is one to plan for. */
START_TEST(test_places_of_another_machine)
{
    run_in_places(&(pst_pipeline_options){.topology_synthetic = "pack:1 core:8 pu:2"},
                  6, false);
}
END_TEST

/* The caller's affinity and mask, before and after everything. */
START_TEST(test_caller_stays_as_it_is)
{
    sigset_t mask;
    sigset_t before;
    char own[256];
    char later[256];
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    kernel_cpus(own, sizeof own);
    run_in_places(NULL, 4, true);
    kernel_cpus(later, sizeof later);
    ck_assert_str_eq(own, later);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    for (int number = 1; number < 32; number++)
        ck_assert_int_eq(sigismember(&mask, number), sigismember(&before, number));
}
END_TEST

#ifdef PST_DEBUG
static bool all_nan(const void *memory, size_t bytes)
{
    const float *value = memory;
    for (size_t i = 0; i < bytes / sizeof *value; i++)
        if (value[i] == value[i])
            return false;
    return true;
}

static pst_stage_function toy_forward;
static pst_stage_function toy_backward_input;

static pst_status forward_into_fresh(void *self, pst_work *work, pst_error *err)
{
    if (!all_nan(work->output, work->output_bytes) ||
        !all_nan(work->saved_for_input, one.stage[1].saved_for_input_bytes) ||
        !all_nan(work->saved_for_weight, one.stage[1].saved_for_weight_bytes) ||
        !all_nan(work->scratch, one.stage[1].scratch_bytes))
        return pst_error_set(err, PST_EINVAL, "something is left in F's buffers");
    return toy_forward(self, work, err);
}

static pst_status backward_into_fresh(void *self, pst_work *work, pst_error *err)
{
    if (!all_nan(work->input_grad, work->input_grad_bytes) ||
        !all_nan(work->kept, one.stage[1].kept_bytes) ||
        !all_nan(work->scratch, one.stage[1].scratch_bytes))
        return pst_error_set(err, PST_EINVAL, "something is left in I's buffers");
    return toy_backward_input(self, work, err);
}

/* Of debug builds: nobody finds what another microbatch left behind. */
START_TEST(test_fresh_buffers_hold_nan)
{
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    toy_forward = one.stage[1].forward;
    toy_backward_input = one.stage[1].backward_input;
    one.stage[1].forward = forward_into_fresh;
    one.stage[1].backward_input = backward_into_fresh;
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    load_run_check(&one, pipeline, toy_named("1f1b", 3, 8), 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST
#endif

/* One that a thread causes by a fault of its own, which a handler must be able to see.
 */
static bool is_own_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
           number == SIGILL || number == SIGTRAP;
}

static pst_status check_signals(void *user, int op, pst_work *work, pst_error *err)
{
    sigset_t mask;
    (void)user;
    (void)op;
    (void)work;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 32; number++)
        if (number != SIGKILL && number != SIGSTOP &&
            sigismember(&mask, number) == is_own_fault(number))
            return pst_error_set(err, PST_EINVAL, "signal %d is wrong", number);
    return PST_OK;
}

START_TEST(test_workers_block_signals)
{
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, NULL, NULL);
    one.hook = check_signals;
    load_run_check(&one, pipeline, toy_named("gpipe", 3, 2), 0);
    pst_pipeline_destroy(pipeline);
}
END_TEST

/* ---- two pipelines ------------------------------------------------------- */

START_TEST(test_two_in_turn)
{
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    toy_init(&two, &(toy_shape){.stages = 2, .ranks = 2});
    pst_pipeline *first = toy_create(&one, NULL, NULL);
    pst_pipeline *second = toy_create(&two, NULL, NULL);
    pst_schedule *schedule = toy_named("1f1b", 3, 4);
    pst_schedule *other = toy_named("gpipe", 2, 5);
    const int first_program = toy_load(first, schedule);
    const int second_program = toy_load(second, other);
    pst_schedule_destroy(schedule);
    pst_schedule_destroy(other);
    for (int i = 0; i < 20; i++) {
        toy_run(&one, first, first_program, 4, i);
        toy_run(&two, second, second_program, 5, 2 * i);
    }
    pst_pipeline_destroy(first);
    toy_run(&two, second, second_program, 5, 7);
    pst_pipeline_destroy(second);
}
END_TEST

typedef struct user {
    toy *t;
    pst_pipeline *pipeline;
    int program;
    int microbatches;
    int right; /* runs                                                         */
} user;

enum { RUNS = 100 };

static void *run_often(void *argument)
{
    user *u = argument;
    for (int i = 0; i < RUNS; i++)
        u->right += pst_pipeline_run(u->pipeline, u->program, 0, i, NULL) == PST_OK &&
                    toy_is_right(u->t, u->pipeline, u->microbatches, i);
    return NULL;
}

static user make_user(toy *t, int ranks, const char *name, int microbatches)
{
    toy_init(t, &(toy_shape){.stages = ranks, .ranks = ranks});
    user u = {.t = t, .microbatches = microbatches};
    pst_schedule *schedule = toy_named(name, ranks, microbatches);
    u.pipeline = toy_create(t, NULL, NULL);
    u.program = toy_load(u.pipeline, schedule);
    pst_schedule_destroy(schedule);
    return u;
}

START_TEST(test_two_at_once)
{
    user users[2] = {make_user(&one, 3, "1f1b", 5), make_user(&two, 4, "gpipe", 3)};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_often, &users[0]), 0);
    run_often(&users[1]);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(users[i].right, RUNS);
        pst_pipeline_destroy(users[i].pipeline);
    }
}
END_TEST

/* ---- the caller's memory ------------------------------------------------- */

START_TEST(test_allocator_of_the_caller)
{
    toy_env memory;
    toy_env_init(&memory);
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    pst_pipeline *pipeline = toy_create(&one, &memory.env, NULL);
    ck_assert_int_gt(memory.live, 0);
    for (int m = 1; m < 6; m++) {
        pst_schedule *schedule = toy_named(m % 2 ? "gpipe" : "1f1b", 3, m);
        const int program = toy_load(pipeline, schedule);
        const long total = memory.total;
        toy_run(&one, pipeline, program, m, m);
        ck_assert_int_eq(memory.total, total); /* nothing while it runs */
        pst_schedule_destroy(schedule);
    }
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
    ck_assert_int_eq(memory.foreign, 0);
}
END_TEST

/* Create with the n-th block refused, until none is missing. */
static pst_pipeline *create_in_little_memory(toy_env *memory)
{
    pst_pipeline *pipeline = NULL;
    for (long n = 1;; n++) {
        pst_error err = PST_ERROR_INIT;
        memory->fail_at = memory->total + n;
        const pst_status status = pst_pipeline_create(
            &memory->env, one.stage, 3, one.rank_of_stage, 3, NULL, &pipeline, &err);
        if (status == PST_OK)
            return pipeline;
        ck_assert_int_eq(status, PST_ENOMEM);
        ck_assert_int_eq(strncmp(err.text, "no memory for ", 14), 0);
        ck_assert_int_eq(memory->live, 0);
        ck_assert_ptr_null(pipeline);
    }
}

START_TEST(test_little_memory)
{
    toy_env memory;
    int program = -1;
    toy_env_init(&memory);
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
    pst_schedule *small = toy_random(&one, 2, 1, false);
    pst_schedule *large = toy_random(&one, 9, 2, true);
    pst_pipeline *pipeline = create_in_little_memory(&memory);
    for (int s = 0; s < 3; s++)
        for (size_t k = 0; k < TOY_WIDTH; k++)
            ((float *)pst_pipeline_weights(pipeline, s))[k] = toy_weight(&one, s, k);
    for (int list = 0; list < 2; list++) {
        pst_status status = PST_ENOMEM;
        for (long n = 1; status != PST_OK; n++) {
            memory.fail_at = memory.total + n;
            status = pst_pipeline_load(pipeline, list ? large : small, &program, NULL);
            ck_assert(status == PST_OK || status == PST_ENOMEM);
            if (list == 1)
                toy_run(&one, pipeline, 0, 2, n);
        }
        toy_run(&one, pipeline, program, list ? 9 : 2, 4);
        toy_run(&one, pipeline, 0, 2, 5);
    }
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
    pst_schedule_destroy(small);
    pst_schedule_destroy(large);
}
END_TEST

/* ---- arguments ----------------------------------------------------------- */

static void refuse(int stages, const int *rank_of_stage, int ranks,
                   const pst_pipeline_options *options, const char *text)
{
    toy_env memory;
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = NULL;
    toy_env_init(&memory);
    ck_assert_int_eq(pst_pipeline_create(&memory.env, one.stage, stages, rank_of_stage,
                                         ranks, options, &pipeline, &err),
                     PST_EINVAL);
    ck_assert_ptr_null(pipeline);
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(memory.live, 0);
}

static void fresh_toy(void)
{
    toy_init(&one, &(toy_shape){.stages = 3, .ranks = 3, .exact = true});
}

START_TEST(test_refused_sizes)
{
    fresh_toy();
    one.stage[1].input_bytes = 28;
    refuse(3, one.rank_of_stage, 3, NULL,
           "stage 0 makes 32 bytes and stage 1 takes 28; they must be the same");
    fresh_toy();
    one.stage[0].input_bytes = 4;
    refuse(3, one.rank_of_stage, 3, NULL,
           "stage 0 has 4 input bytes; it has no stage before it, so they must be 0");
    fresh_toy();
    one.stage[2].output_bytes = 8;
    refuse(3, one.rank_of_stage, 3, NULL,
           "stage 2 has 8 output bytes; it is the last, so they must be 0");
    fresh_toy();
    one.stage[2].forward = NULL;
    refuse(3, one.rank_of_stage, 3, NULL, "stage 2 has no forward callback");
}
END_TEST

START_TEST(test_refused_ranks)
{
    fresh_toy();
    refuse(3, (const int[]){0, 1, 2}, 4, NULL,
           "3 stages on 4 ranks; there must be 1 to 65535 stages, and 1 rank to one a "
           "stage");
    refuse(3, (const int[]){0, 1, 2}, 0, NULL,
           "3 stages on 0 ranks; there must be 1 to 65535 stages, and 1 rank to one a "
           "stage");
    refuse(0, NULL, 1, NULL,
           "0 stages on 1 ranks; there must be 1 to 65535 stages, and 1 rank to one a "
           "stage");
    refuse(3, (const int[]){0, 3, 2}, 3, NULL,
           "stage 1 stands on rank 3; ranks are 0 .. 2");
    refuse(3, (const int[]){0, 1, -1}, 3, NULL,
           "stage 2 stands on rank -1; ranks are 0 .. 2");
}
END_TEST

START_TEST(test_refused_options)
{
    const pst_tie_member fit[] = {{0, 0}, {2, 0}}, far[] = {{0, 1}, {2, 0}},
                         foreign[] = {{0, 0}, {3, 0}}, twice[] = {{1, 0}, {1, 3}};
    const pst_tie ties[] = {{fit, 2, TOY_WIDTH - 1}, {far, 2, TOY_WIDTH}};
    const pst_tie strange = {foreign, 2, 1}, lonely = {fit, 1, 1};
    const pst_tie shared = {twice, 2, 4};
    const pst_tie both[] = {{fit, 2, 2}, {far, 2, 1}};
    fresh_toy();
    refuse(3, one.rank_of_stage, 3,
           &(pst_pipeline_options){.ties = ties, .tie_count = 2},
           "tie 1, member 0: 8 gradients from 1 on, and stage 0 has 8");
    refuse(3, one.rank_of_stage, 3,
           &(pst_pipeline_options){.ties = &strange, .tie_count = 1},
           "tie 0, member 1: 1 gradients from 0 on, and stage 3 has 0");
    refuse(3, one.rank_of_stage, 3,
           &(pst_pipeline_options){.ties = &lonely, .tie_count = 1},
           "tie 0 has 1 members; it needs at least 2");
    refuse(
        3, one.rank_of_stage, 3,
        &(pst_pipeline_options){.ties = &shared, .tie_count = 1},
        "tie 0, member 0 and tie 0, member 1 share gradients of stage 1; each can be "
        "in one sum");
    refuse(
        3, one.rank_of_stage, 3, &(pst_pipeline_options){.ties = both, .tie_count = 2},
        "tie 0, member 0 and tie 1, member 0 share gradients of stage 0; each can be "
        "in one sum");
    refuse(3, one.rank_of_stage, 3,
           &(pst_pipeline_options){.topology_synthetic = "nonsense"},
           "topology 'nonsense' is not hwloc's synthetic form; the levels go from the "
           "root to 'pu', as in 'pack:2 core:4 pu:2'");
}
END_TEST

START_TEST(test_memory_that_cannot_be)
{
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = NULL;
    fresh_toy();
    one.stage[1].gradient_count = SIZE_MAX / 2;
    ck_assert_int_eq(pst_pipeline_create(NULL, one.stage, 3, one.rank_of_stage, 3, NULL,
                                         &pipeline, &err),
                     PST_ENOMEM);
    ck_assert_str_eq(err.text, "no memory for the weights of a stage (0 bytes)");
}
END_TEST

START_TEST(test_destroy_takes_null)
{
    pst_pipeline_destroy(NULL);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *made = tcase_create(name);
    tcase_set_timeout(made, 120);
    suite_add_tcase(suite, made);
    return made;
}

static void add_results(Suite *suite)
{
    const int all = sizeof mappings / sizeof mappings[0];
    TCase *results = new_case(suite, "results");
    tcase_add_loop_test(results, test_named_exact, 1, 7);
    tcase_add_loop_test(results, test_named_inexact, 1, 7);
    tcase_add_loop_test(results, test_shorter_buffers, 1, 7);
    tcase_add_loop_test(results, test_random_lists, 0, all);
    tcase_add_loop_test(results, test_random_slices, 0, all);
    tcase_add_loop_test(results, test_named_slices, 1, 5);
    tcase_add_test(results, test_by_hand);
    tcase_add_test(results, test_cells_that_do_not_compute);
    tcase_add_test(results, test_programs_in_turn);
    tcase_add_test(results, test_iterations_beyond_32_bits);
    tcase_add_loop_test(results, test_delays_change_nothing, 1, 21);
    tcase_add_test(results, test_200_ranks);
    tcase_add_test(results, test_many_short_runs);
    tcase_add_test(results, test_forward_only);
}

static void add_places(Suite *suite)
{
    TCase *places = new_case(suite, "places");
    tcase_add_loop_test(places, test_places, 1, 7);
    tcase_add_test(places, test_places_of_another_machine);
    tcase_add_test(places, test_caller_stays_as_it_is);
    tcase_add_test(places, test_workers_block_signals);
#ifdef PST_DEBUG
    tcase_add_test(places, test_fresh_buffers_hold_nan);
#endif
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("pipeline");
    add_results(suite);
    add_places(suite);
    TCase *pair = new_case(suite, "two pipelines");
    tcase_add_test(pair, test_two_in_turn);
    tcase_add_test(pair, test_two_at_once);
    TCase *memory = new_case(suite, "memory");
    tcase_add_test(memory, test_allocator_of_the_caller);
    tcase_add_test(memory, test_little_memory);
    tcase_add_test(memory, test_memory_that_cannot_be);
    TCase *arguments = new_case(suite, "arguments");
    tcase_add_test(arguments, test_refused_sizes);
    tcase_add_test(arguments, test_refused_ranks);
    tcase_add_test(arguments, test_refused_options);
    tcase_add_test(arguments, test_destroy_takes_null);
    return suite;
}
