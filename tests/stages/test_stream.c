/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_stream.c - streams: order, back-pressure, drops, errors, cancelling, hanging,
 * memory.
 *
 * Items are heap blocks that are counted; every stage adds its number to an item's
 * trail, so that the sink can tell that each stage had it once, and in order.
 */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/stream.h>

#include "stages/atomic.h"
#include "stages/stream_engine.h"
#include "stages/thread.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

enum { STAGES_AT_MOST = 12, NOBODY = -1 };

typedef struct item {
    uint64_t number;
    uint64_t trail;
} item;

/* What happens where. */
typedef struct plan {
    int stages;
    uint64_t items;
    uint64_t delay_seed;  /* not 0: random delays                               */
    int fail_stage;       /* NOBODY: none                                       */
    uint64_t fail_number; /* the item it fails at                               */
    bool silent;          /* without a sentence                                 */
    int drop_stage;       /* drops every third item; NOBODY: none               */
    bool unordered;
    int slow_stage; /* takes very long for item 0; NOBODY: none                 */
} plan;

static plan the_plan;
static pst_atomic_u64 live;
static pst_atomic_u32 calls[STAGES_AT_MOST];
static uint64_t sunk;
static uint64_t sum;
static uint64_t expected;
static bool wrong;

static void pause_ns(uint64_t ns)
{
    pst_atomic_u32 nobody = 0;
    pst__futex_wait(&nobody, 0, ns + 1);
}

/* Depends on seed, stage and item alone. */
static void delay(int stage, uint64_t number)
{
    uint64_t x = the_plan.delay_seed + number * 0x9e3779b97f4a7c15u + (uint64_t)stage;
    if (the_plan.delay_seed == 0)
        return;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    if (x % 8 == 0)
        pause_ns(x >> 50);
    else if (x % 8 == 1)
        for (uint64_t i = 0; i < x >> 54; i++)
            pst__pause();
}

static pst_status may_fail(int stage, uint64_t number, pst_error *err)
{
    atomic_fetch_add(&calls[stage], 1);
    if (stage != the_plan.fail_stage || number != the_plan.fail_number)
        return PST_OK;
    return the_plan.silent ? PST_ENUMERIC
                           : pst_error_set(err, PST_ENUMERIC, "on purpose");
}

static pst_status make(void *self, pst_stream_item *it, pst_error *err)
{
    const pst_status status = may_fail(0, it->number, err);
    (void)self;
    if (status != PST_OK)
        return status;
    if (it->number == the_plan.items) {
        it->end = 1;
        return PST_OK;
    }
    delay(0, it->number);
    item *made = it->data;
    if (!made) {
        made = malloc(sizeof *made);
        atomic_fetch_add(&live, 1);
    }
    *made = (item){.number = it->number};
    it->data = made;
    return PST_OK;
}

static pst_status change(void *self, pst_stream_item *it, pst_error *err)
{
    const int stage = *(const int *)self;
    item *mine = it->data;
    const pst_status status = may_fail(stage, it->number, err);
    if (status != PST_OK)
        return status;
    delay(stage, mine->number);
    if (stage == the_plan.slow_stage && it->number == 0)
        pause_ns(30000000);
    mine->trail = mine->trail * 16 + (uint64_t)stage;
    if (stage == the_plan.drop_stage && mine->number % 3 == 1)
        it->drop = 1;
    return PST_OK;
}

static uint64_t whole_trail(void)
{
    uint64_t trail = 0;
    for (int stage = 1; stage < the_plan.stages - 1; stage++)
        trail = trail * 16 + (uint64_t)stage;
    return trail;
}

static void free_item(void *user, void *data)
{
    (void)user;
    free(data);
    atomic_fetch_sub(&live, 1);
}

static pst_status sink(void *self, pst_stream_item *it, pst_error *err)
{
    item *mine = it->data;
    const pst_status status = may_fail(the_plan.stages - 1, it->number, err);
    if (status != PST_OK)
        return status;
    delay(the_plan.stages - 1, mine->number);
    if (the_plan.drop_stage != NOBODY && expected % 3 == 1)
        expected++;
    if (!the_plan.unordered)
        wrong = wrong || mine->number != expected || it->number != expected;
    wrong = wrong || mine->trail != whole_trail();
    expected++;
    sunk++;
    sum += mine->number;
    if (!self) /* the runtime's own buffers are not ours to free */
        free_item(NULL, mine);
    return PST_OK;
}

static int numbers[STAGES_AT_MOST];

/* "1", "1*3", "3+" are stages with replicas (*), with the one before (+), in any order
 * (~); the source is always in front and the sink behind. */
static int parse(const char *text, pst_stream_stage *stages)
{
    int count = 1;
    memset(stages, 0, STAGES_AT_MOST * sizeof *stages);
    stages[0].run = make;
    for (const char *c = text; *c; c++) {
        pst_stream_stage *last = &stages[count - 1];
        if (*c == '+')
            last->with_previous = 1;
        else if (*c == '~')
            last->any_order = 1;
        else if (*c >= '1' && *c <= '9')
            stages[count++] = (pst_stream_stage){.run = change, .replicas = *c - '0'};
    }
    for (int i = 0; i < STAGES_AT_MOST; i++)
        numbers[i] = i;
    for (int i = 1; i < count; i++)
        stages[i].self = &numbers[i];
    stages[count++].run = sink;
    return count;
}

static void prepare(const plan *p, int stages)
{
    the_plan = *p;
    the_plan.stages = stages;
    sunk = sum = expected = 0;
    wrong = false;
    for (int i = 0; i < STAGES_AT_MOST; i++)
        atomic_store(&calls[i], 0);
}

static const plan plain = {
    .items = 2000, .fail_stage = NOBODY, .drop_stage = NOBODY, .slow_stage = NOBODY};

static pst_stream *open_stream(const char *shape, const pst_env *env,
                               pst_stream_options options)
{
    pst_stream_stage stages[STAGES_AT_MOST];
    pst_stream *stream = NULL;
    pst_error err = PST_ERROR_INIT;
    const int count = parse(shape, stages);
    prepare(&plain, count);
    if (!options.item_bytes)
        options.discard = free_item;
    else
        stages[count - 1].self = numbers;
    pst_stream_create(env, stages, count, &options, &stream, &err);
    ck_assert_msg(stream != NULL, "%s: %s", shape, err.text);
    return stream;
}

static void run_well(pst_stream *stream, const plan *p)
{
    pst_error err = PST_ERROR_INIT;
    uint64_t taken = 99;
    prepare(p, stream->stage_count);
    const pst_status status = pst_stream_run(stream, &taken, &err);
    ck_assert_str_eq(err.text, "");
    ck_assert_int_eq(status, PST_OK);
    ck_assert(!wrong);
    const uint64_t dropped = p->drop_stage == NOBODY ? 0 : (p->items + 1) / 3;
    ck_assert_uint_eq(taken, p->items - dropped);
    ck_assert_uint_eq(sunk, taken);
    if (dropped == 0 && p->items > 0)
        ck_assert_uint_eq(sum, p->items * (p->items - 1) / 2);
    ck_assert_uint_eq(atomic_load(&live), 0);
    for (int i = 0; i < stream->flow_count; i++)
        ck_assert(pst__flow_check(&stream->flows[i]));
}

/* ---- order --------------------------------------------------------------- */

static const char *const shapes[] = {"",      "1",  "2",   "3",   "1111111", "1+",
                                     "11+1+", "22", "22+", "131", "3121",    "2213"};
enum { SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(test_order)
{
    pst_stream *stream = open_stream(shapes[_i], NULL, (pst_stream_options){0});
    static const uint64_t counts[] = {0, 1, 2, 5000};
    for (int i = 0; i < 4; i++) {
        plan p = plain;
        p.items = counts[i];
        run_well(stream, &p);
    }
    pst_stream_destroy(stream);
}
END_TEST

START_TEST(test_order_with_delays)
{
    static const int capacities[] = {1, 2, 3, 64};
    for (int i = 0; i < 4; i++) {
        pst_stream *stream = open_stream(
            shapes[_i], NULL, (pst_stream_options){.capacity = capacities[i]});
        for (uint64_t seed = 1; seed <= 2; seed++) {
            plan p = plain;
            p.items = 700;
            p.delay_seed = seed * 77 + (uint64_t)i;
            run_well(stream, &p);
        }
        pst_stream_destroy(stream);
    }
}
END_TEST

START_TEST(test_drops)
{
    static const int capacities[] = {1, 5, 0};
    for (int i = 0; i < 3; i++) {
        pst_stream *stream = open_stream(
            shapes[_i], NULL, (pst_stream_options){.capacity = capacities[i]});
        plan p = plain;
        p.drop_stage = stream->stage_count > 2 ? 1 : NOBODY;
        run_well(stream, &p);
        p.drop_stage = stream->stage_count > 3 ? stream->stage_count - 2 : NOBODY;
        run_well(stream, &p);
        pst_stream_destroy(stream);
    }
}
END_TEST

START_TEST(test_own_buffers)
{
    static const int counts[] = {0, 1, 2, 100};
    for (int i = 0; i < 4; i++) {
        pst_stream *stream =
            open_stream(shapes[_i], NULL,
                        (pst_stream_options){.item_bytes = sizeof(item),
                                             .buffer_count = counts[i]});
        plan p = plain;
        p.delay_seed = i == 3 ? 0 : 5;
        p.items = 500;
        run_well(stream, &p);
        p.drop_stage = stream->stage_count > 2 ? 1 : NOBODY;
        run_well(stream, &p);
        pst_worker_info info;
        pst_stream_worker(stream, 0, &info);
        const int wanted = counts[i] ? counts[i] : 4 * pst_stream_worker_count(stream);
        ck_assert_uint_eq(info.memory_bytes, 64 * (size_t)wanted);
        pst_stream_destroy(stream);
    }
}
END_TEST

/* One item takes very long: the others are done meanwhile as far as there is room. */
START_TEST(test_one_slow_item)
{
    for (int capacity = 1; capacity <= 8; capacity *= 8) {
        pst_stream *stream =
            open_stream("31", NULL, (pst_stream_options){.capacity = capacity});
        plan p = plain;
        p.slow_stage = 1;
        run_well(stream, &p);
        pst_stream_destroy(stream);
    }
}
END_TEST

START_TEST(test_any_order)
{
    static const char *const texts[] = {"31~", "31~21", "41~1"};
    for (int i = 0; i < 3; i++) {
        pst_stream *stream = open_stream(texts[i], NULL, (pst_stream_options){0});
        plan p = plain;
        p.unordered = true;
        p.delay_seed = 9;
        p.items = 600;
        run_well(stream, &p);
        p.slow_stage = 1;
        run_well(stream, &p);
        pst_stream_destroy(stream);
    }
}
END_TEST

START_TEST(test_more_workers_than_cpus)
{
    pst_stream *stream = open_stream("888", NULL, (pst_stream_options){.capacity = 2});
    ck_assert_int_eq(pst_stream_worker_count(stream), 26);
    for (uint64_t seed = 0; seed < 3; seed++) {
        plan p = plain;
        p.delay_seed = seed;
        p.items = 1000;
        run_well(stream, &p);
    }
    pst_stream_destroy(stream);
}
END_TEST

START_TEST(test_counters_wrap)
{
    pst_flow flow;
    pst_doorbell a = {0}, b = {0};
    memset(&flow, 0, sizeof flow);
    ck_assert(pst__flow_init(&flow, NULL, 3, &a, &b));
    pst__flow_reset(&flow, UINT32_MAX - 4);
    uint64_t in = 0, out = 0;
    for (int round = 0; round < 6; round++) {
        while (pst__flow_has_room(&flow))
            pst__flow_push(&flow, (pst_token){.number = in++});
        ck_assert_uint_eq(pst__flow_depth(&flow), 3);
        if (round % 2)
            pst__flow_settle_tail(&flow);
        ck_assert_uint_eq(pst__flow_look_for_batch(&flow), round % 2 ? 3 : 0);
        for (const pst_token *token; (token = pst__flow_peek(&flow));
             pst__flow_pop(&flow))
            ck_assert_uint_eq(token->number, out++);
        ck_assert(pst__flow_check(&flow));
    }
    ck_assert_uint_eq(in, 18);
    ck_assert_uint_eq(out, 18);
    pst__flow_fini(&flow, NULL);
}
END_TEST

/* ---- back-pressure ------------------------------------------------------- */

static sem_t may_go_on;
static pst_atomic_u32 made_items;

static pst_status count_made(void *self, pst_stream_item *it, pst_error *err)
{
    (void)self, (void)err;
    it->end = it->number == 100;
    atomic_fetch_add(&made_items, !it->end);
    return PST_OK;
}

static pst_status wait_once(void *self, pst_stream_item *it, pst_error *err)
{
    (void)self, (void)err;
    if (it->number == 0)
        sem_wait(&may_go_on);
    return PST_OK;
}

static void *run_it(void *stream)
{
    static pst_error err;
    err = (pst_error)PST_ERROR_INIT;
    pst_stream_run(stream, NULL, &err);
    return &err;
}

/* While the sink stands, the source makes as many as rings and hands hold; one less
 * where it came to a full ring, which it leaves alone until half of it is free. */
START_TEST(test_back_pressure)
{
    const pst_stream_stage stages[] = {{.run = count_made}, {.run = wait_once}};
    const pst_stream_options options[] = {{.capacity = 4},
                                          {.item_bytes = 8, .buffer_count = 3}};
    static const uint32_t least[] = {4 + 1, 3};
    static const uint32_t most[] = {4 + 1 + 1, 3};
    pst_stream *stream;
    ck_assert_int_eq(pst_stream_create(NULL, stages, 2, &options[_i], &stream, NULL),
                     0);
    sem_init(&may_go_on, 0, 0);
    atomic_store(&made_items, 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_it, stream), 0);
    for (int i = 0; i < 5000 && atomic_load(&made_items) < least[_i]; i++)
        pause_ns(1000000);
    pause_ns(20000000);
    const uint32_t made = atomic_load(&made_items);
    ck_assert_uint_ge(made, least[_i]);
    ck_assert_uint_le(made, most[_i]);
    char text[256];
    char expected_text[256];
    snprintf(expected_text, sizeof expected_text,
             _i ? "the source waits for a buffer to come back\n"
                  "the sink is in its callback with item %u\n"
                : "the source waits for the stage after it to take item %u\n"
                  "the sink is in its callback with item 0\n",
             _i ? 0 : made - 1);
    ck_assert_uint_eq(pst_stream_dump(stream, text, sizeof text), strlen(text));
    ck_assert_str_eq(text, expected_text);
    sem_post(&may_go_on);
    void *err;
    pthread_join(thread, &err);
    ck_assert_str_eq(((pst_error *)err)->text, "");
    ck_assert_uint_eq(atomic_load(&made_items), 100);
    pst_stream_destroy(stream);
}
END_TEST

/* A lone item reaches an idle sink although its source is busy for long afterwards. */
static pst_atomic_u32 arrived;

static pst_status one_then_wait(void *self, pst_stream_item *it, pst_error *err)
{
    (void)self, (void)err;
    for (int i = 0; it->number == 7 && i < 5000 && atomic_load(&arrived) < 7; i++)
        pause_ns(1000000);
    it->end = it->number == 7;
    return PST_OK;
}

static pst_status note_arrival(void *self, pst_stream_item *it, pst_error *err)
{
    (void)self, (void)it, (void)err;
    atomic_fetch_add(&arrived, 1);
    return PST_OK;
}

START_TEST(test_items_do_not_wait_for_a_batch)
{
    const pst_stream_stage stages[] = {{.run = one_then_wait}, {.run = note_arrival}};
    pst_stream *stream;
    ck_assert_int_eq(pst_stream_create(NULL, stages, 2, NULL, &stream, NULL), 0);
    const uint64_t start = pst__now_ns();
    for (int i = 0; i < 200; i++) {
        atomic_store(&arrived, 0);
        ck_assert_int_eq(pst_stream_run(stream, NULL, NULL), PST_OK);
    }
    ck_assert_uint_lt(pst__now_ns() - start, UINT64_C(100000000000));
    pst_stream_destroy(stream);
}
END_TEST

/* ---- errors -------------------------------------------------------------- */

static void run_fails(pst_stream *stream, const plan *p, pst_status status,
                      const char *text)
{
    pst_error err = PST_ERROR_INIT;
    uint64_t taken = 99;
    prepare(p, stream->stage_count);
    const pst_status found = pst_stream_run(stream, &taken, &err);
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(found, status);
    ck_assert_uint_eq(taken, 99);
    ck_assert_uint_eq(atomic_load(&live), 0);
}

START_TEST(test_failing_callbacks)
{
    static const struct {
        const char *shape;
        int stage;
        const char *text;
    } rows[] = {
        {"", 0, "the source, item 41: on purpose"},
        {"", 1, "the sink, item 41: on purpose"},
        {"1", 1, "stage 1, item 41: on purpose"},
        {"11+1", 2, "stage 2, item 41: on purpose"},
        {"1111111", 0, "the source, item 41: on purpose"},
        {"31", 4 - 1, "the sink, item 41: on purpose"},
    };
    pst_stream *stream = open_stream(rows[_i].shape, NULL, (pst_stream_options){0});
    for (int round = 0; round < 20; round++) {
        plan p = plain;
        p.fail_stage = rows[_i].stage;
        p.fail_number = 41;
        p.delay_seed = (uint64_t)round;
        run_fails(stream, &p, PST_ENUMERIC, rows[_i].text);
        run_well(stream, &plain);
    }
    pst_stream_destroy(stream);
}
END_TEST

START_TEST(test_failing_replica)
{
    pst_stream *stream = open_stream("133", NULL, (pst_stream_options){.capacity = 2});
    for (int round = 0; round < 20; round++) {
        plan p = plain;
        p.fail_stage = 3;
        p.fail_number = (uint64_t)round * 7;
        p.silent = round % 2;
        p.delay_seed = 1 + (uint64_t)round;
        prepare(&p, stream->stage_count);
        pst_error err = PST_ERROR_INIT;
        ck_assert_int_eq(pst_stream_run(stream, NULL, &err), PST_ENUMERIC);
        int replica = -1, length = 0;
        unsigned long number = 0;
        sscanf(err.text, "stage 3, replica %d, item %lu: %n", &replica, &number,
               &length);
        ck_assert_msg(length > 0 && replica >= 0 && replica < 3, "%s", err.text);
        ck_assert_uint_eq(number, p.fail_number);
        ck_assert_str_eq(err.text + length,
                         p.silent ? pst_status_text(PST_ENUMERIC) : "on purpose");
        ck_assert_uint_eq(atomic_load(&live), 0);
    }
    run_well(stream, &plain);
    pst_stream_destroy(stream);
}
END_TEST

static pst_status complain_and_go_on(void *self, pst_stream_item *it, pst_error *err)
{
    (void)self;
    if (it->number == 3)
        return PST_EIO;
    pst_error_set(err, PST_EFORMAT, "nothing serious");
    return PST_OK;
}

START_TEST(test_names_and_stale_sentences)
{
    const pst_stream_stage stages[] = {
        {.run = count_made},
        {.run = complain_and_go_on, .name = "tidy"},
        {.run = note_arrival},
    };
    pst_error err = PST_ERROR_INIT;
    pst_stream *stream;
    ck_assert_int_eq(pst_stream_create(NULL, stages, 3, NULL, &stream, NULL), 0);
    ck_assert_int_eq(pst_stream_run(stream, NULL, &err), PST_EIO);
    ck_assert_str_eq(err.text, "stage 1 (tidy), item 3: input or output failed");
    pst_stream_destroy(stream);
}
END_TEST

/* ---- cancelling ---------------------------------------------------------- */

static pst_status cancel_at(void *self, pst_stream_item *it, pst_error *err)
{
    pst_stream **stream = self;
    (void)err;
    if (it->number == 50)
        pst_stream_cancel(*stream);
    free_item(NULL, it->data);
    return PST_OK;
}

/* Not before the run has begun, as that would not end it. */
static void *cancel_soon(void *stream)
{
    while (atomic_load(&calls[0]) == 0)
        pause_ns(100000);
    pause_ns(3000000);
    pst_stream_cancel(stream);
    return NULL;
}

START_TEST(test_cancel_from_another_thread)
{
    pst_stream *stream = open_stream("121", NULL, (pst_stream_options){.capacity = 8});
    for (int round = 0; round < 10; round++) {
        plan p = plain;
        p.items = UINT64_MAX;
        p.slow_stage = round % 2 ? 1 : NOBODY;
        pthread_t thread;
        prepare(&p, stream->stage_count);
        ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, stream), 0);
        run_fails(stream, &p, PST_ECALLBACK, "the stream was cancelled");
        pthread_join(thread, NULL);
    }
    pst_stream_cancel(stream); /* idle: no effect on the next run */
    run_well(stream, &plain);
    pst_stream_destroy(stream);
}
END_TEST

START_TEST(test_cancel_from_a_callback)
{
    pst_stream *stream = NULL;
    const pst_stream_stage stages[] = {{.run = make},
                                       {.run = cancel_at, .self = &stream}};
    const pst_stream_options options = {.discard = free_item};
    ck_assert_int_eq(pst_stream_create(NULL, stages, 2, &options, &stream, NULL), 0);
    run_fails(stream, &plain, PST_ECALLBACK, "the stream was cancelled");
    pst_stream_destroy(stream);
}
END_TEST

/* ---- hanging ------------------------------------------------------------- */

static pst_status hang_at(void *self, pst_stream_item *it, pst_error *err)
{
    (void)self, (void)err;
    if (it->number == 2)
        sem_wait(&may_go_on);
    return PST_OK;
}

START_TEST(test_watchdog)
{
    const pst_stream_stage stages[] = {
        {.run = count_made}, {.run = hang_at, .replicas = 2}, {.run = note_arrival}};
    const pst_stream_options options = {.watchdog_seconds = 0.2, .capacity = 1};
    static toy_env memory; /* outlives the test's function: the memory stays */
    pst_error err = PST_ERROR_INIT;
    pst_stream *stream;
    toy_env_init(&memory);
    sem_init(&may_go_on, 0, 0);
    ck_assert_int_eq(pst_stream_create(&memory.env, stages, 3, &options, &stream, NULL),
                     0);
    ck_assert_int_eq(pst_stream_run(stream, NULL, &err), PST_ETIMEOUT);
    const char *begins =
        "no item moved for 0.2 s: the source waits for the stage after "
        "it to take item ";
    ck_assert_msg(strncmp(err.text, begins, strlen(begins)) == 0, "%s", err.text);
    ck_assert_msg(strstr(err.text, "is in its callback with item 2;") != NULL, "%s",
                  err.text);
    ck_assert_msg(strstr(err.text, ";the sink waits for an item") != NULL, "%s",
                  err.text);
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_stream_run(stream, NULL, &err), PST_ETIMEOUT);
    ck_assert_str_eq(err.text,
                     "a stage's callback has not returned from an earlier run; this "
                     "stream can only be destroyed");
    pst_stream_destroy(stream);
    ck_assert_str_eq(memory.last_line,
                     "a stage's callback has not returned; its stream's memory stays");
    sem_post(&may_go_on);
    pause_ns(50000000);
}
END_TEST

/* ---- memory -------------------------------------------------------------- */

START_TEST(test_every_allocation_may_fail)
{
    pst_stream_stage stages[STAGES_AT_MOST];
    const int count = parse("121", stages);
    const pst_stream_options options = {.item_bytes = 100, .capacity = 4};
    long blocks = 1;
    for (long fail_at = 1; fail_at <= blocks + 1; fail_at++) {
        toy_env memory;
        pst_error err = PST_ERROR_INIT;
        pst_stream *stream = NULL;
        toy_env_init(&memory);
        memory.fail_at = fail_at;
        const pst_status status =
            pst_stream_create(&memory.env, stages, count, &options, &stream, &err);
        ck_assert_int_eq(status, stream ? PST_OK : PST_ENOMEM);
        ck_assert(stream || strncmp(err.text, "no memory for ", 14) == 0);
        if (!stream)
            blocks = fail_at;
        pst_stream_destroy(stream);
        ck_assert_int_eq(memory.live, 0);
    }
    ck_assert_int_gt(blocks, 8);
}
END_TEST

START_TEST(test_runs_allocate_nothing)
{
    toy_env memory;
    toy_env_init(&memory);
    pst_stream *stream = open_stream("131", &memory.env, (pst_stream_options){0});
    const long before = memory.total;
    run_well(stream, &plain);
    plan p = plain;
    p.fail_stage = 2;
    p.fail_number = 8;
    prepare(&p, stream->stage_count);
    ck_assert_int_eq(pst_stream_run(stream, NULL, NULL), PST_ENUMERIC);
    ck_assert_int_eq(memory.total, before);
    ck_assert_int_eq(memory.foreign, 0);
    pst_stream_destroy(stream);
    ck_assert_int_eq(memory.live, 0);
}
END_TEST

START_TEST(test_places)
{
    pst_stream *stream = open_stream("1", NULL, (pst_stream_options){0});
    for (int i = 0; i < pst_stream_worker_count(stream); i++) {
        pst_worker_info info;
        pst_stream_worker(stream, i, &info);
        ck_assert_int_gt(info.thread_id, 0);
        ck_assert_str_ne(info.cpus, "");
        ck_assert_uint_eq(info.memory_bytes, 0);
    }
    pst_stream_destroy(stream);
}
END_TEST

/* ---- refusals ------------------------------------------------------------ */

START_TEST(test_refused_shapes)
{
    static const struct {
        pst_stream_stage stages[4];
        int count;
        pst_stream_options options;
        const char *text;
    } rows[] = {
        {{{.run = make}},
         1,
         {0},
         "1 stages; a stream has a source, a sink and at most "
         "65535 in all"},
        {{{.run = make}, {0}}, 2, {0}, "stage 1 (the sink) has no callback"},
        {{{.run = make, .replicas = 2}, {.run = sink}},
         2,
         {0},
         "stage 0 (the source) has 2 replicas; it has 1"},
        {{{.run = make}, {.run = sink, .replicas = -1}},
         2,
         {0},
         "stage 1 has -1 replicas; 1 to 65535 would work"},
        {{{.run = make, .with_previous = 1}, {.run = sink}},
         2,
         {0},
         "stage 0 (the source) has no stage before it to be with, or to take from in "
         "any order"},
        {{{.run = make},
          {.run = change, .replicas = 2, .with_previous = 1},
          {.run = sink}},
         3,
         {0},
         "stage 1 has 2 replicas and is run by the workers of stage 0, which has 1; "
         "they must be as many"},
        {{{.run = make},
          {.run = change, .replicas = 2},
          {.run = change, .replicas = 3},
          {.run = sink}},
         4,
         {0},
         "stage 1 has 2 replicas and stage 2 has 3; as many, or a stage with 1 between "
         "them, would work"},
        {{{.run = make}, {.run = sink, .any_order = 1}},
         2,
         {0},
         "stage 1 takes items in any order; only a stage with 1 replica after one with "
         "several may"},
        {{{.run = make}, {.run = sink}},
         2,
         {.capacity = -1},
         "a capacity of -1; 1 to 16777216 would work"},
        {{{.run = make}, {.run = sink}},
         2,
         {.buffer_count = 2},
         "2 buffers of 0 bytes; 1 to 16777216 buffers of at least 1 byte would work"},
        {{{.run = make}, {.run = sink}},
         2,
         {.item_bytes = SIZE_MAX / 2},
         "no memory for the buffers of a stream (18446744073709551615 bytes)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pst_error err = PST_ERROR_INIT;
        pst_stream *stream = NULL;
        const pst_status status = pst_stream_create(NULL, rows[i].stages, rows[i].count,
                                                    &rows[i].options, &stream, &err);
        ck_assert_str_eq(err.text, rows[i].text);
        ck_assert_int_eq(status, i == 10 ? PST_ENOMEM : PST_EINVAL);
        ck_assert_ptr_null(stream);
    }
    pst_stream_destroy(NULL);
}
END_TEST

/* ---- the suite ----------------------------------------------------------- */

static TCase *new_case(Suite *suite, const char *name)
{
    TCase *made = tcase_create(name);
    tcase_set_timeout(made, 300);
    suite_add_tcase(suite, made);
    return made;
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("stream");
    TCase *order = new_case(suite, "order");
    tcase_add_loop_test(order, test_order, 0, SHAPES);
    tcase_add_loop_test(order, test_order_with_delays, 0, SHAPES);
    tcase_add_loop_test(order, test_drops, 0, SHAPES);
    tcase_add_loop_test(order, test_own_buffers, 0, SHAPES);
    tcase_add_test(order, test_one_slow_item);
    tcase_add_test(order, test_any_order);
    tcase_add_test(order, test_more_workers_than_cpus);
    tcase_add_test(order, test_counters_wrap);
    TCase *pressure = new_case(suite, "pressure");
    tcase_add_loop_test(pressure, test_back_pressure, 0, 2);
    tcase_add_test(pressure, test_items_do_not_wait_for_a_batch);
    TCase *ends = new_case(suite, "ends");
    tcase_add_loop_test(ends, test_failing_callbacks, 0, 6);
    tcase_add_test(ends, test_failing_replica);
    tcase_add_test(ends, test_names_and_stale_sentences);
    tcase_add_test(ends, test_cancel_from_another_thread);
    tcase_add_test(ends, test_cancel_from_a_callback);
    tcase_add_test(ends, test_watchdog);
    TCase *memory = new_case(suite, "memory");
    tcase_add_test(memory, test_every_allocation_may_fail);
    tcase_add_test(memory, test_runs_allocate_nothing);
    tcase_add_test(memory, test_places);
    tcase_add_test(memory, test_refused_shapes);
    return suite;
}
