/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ring.c - the queue between two workers: bounds, wrapping counters, two threads.
 */
#include <check.h>
#include <sched.h>
#include <string.h>

#include "stages/ring.h"
#include "stages/thread.h"
#include "tests/suite.h"

enum { MESSAGES = 200000 };

static pst_ring ring;

static pst_message numbered(uint32_t number)
{
    return (pst_message){.microbatch = number,
                         .stage = (uint16_t)(number % 7),
                         .direction = (uint8_t)(number % 2),
                         .iteration = (int64_t)number << 20,
                         .bytes = number * (size_t)3};
}

static bool is_numbered(const pst_message *message, uint32_t number)
{
    const pst_message wanted = numbered(number);
    return message->microbatch == wanted.microbatch && message->stage == wanted.stage &&
           message->direction == wanted.direction &&
           message->iteration == wanted.iteration && message->bytes == wanted.bytes;
}

static void push(uint32_t number)
{
    const pst_message message = numbered(number);
    ck_assert(pst__ring_push(&ring, &message));
    ck_assert(pst__ring_check(&ring));
}

static void refuse_push(void)
{
    const pst_message message = numbered(0);
    ck_assert(!pst__ring_push(&ring, &message));
    ck_assert(pst__ring_check(&ring));
}

static void pop(uint32_t number)
{
    pst_message message;
    ck_assert(!pst__ring_is_empty(&ring));
    ck_assert(pst__ring_pop(&ring, &message));
    ck_assert(is_numbered(&message, number));
    ck_assert(pst__ring_check(&ring));
}

static void refuse_pop(void)
{
    pst_message message;
    ck_assert(pst__ring_is_empty(&ring));
    ck_assert(!pst__ring_pop(&ring, &message));
    ck_assert(pst__ring_check(&ring));
}

START_TEST(test_fill_and_empty)
{
    const uint32_t capacity = (uint32_t)_i;
    ck_assert(pst__ring_init(&ring, NULL, capacity));
    ck_assert_uint_eq(ring.capacity, capacity);
    for (int round = 0; round < 3; round++) {
        refuse_pop();
        for (uint32_t i = 0; i < capacity; i++)
            push(i);
        refuse_push();
        for (uint32_t i = 0; i < capacity; i++)
            pop(i);
        refuse_pop();
    }
    pst__ring_fini(&ring, NULL);
    ck_assert_ptr_null(ring.slot);
}
END_TEST

START_TEST(test_every_fill_level)
{
    const uint32_t capacity = 5;
    uint32_t pushed = 0;
    uint32_t popped = 0;
    ck_assert(pst__ring_init(&ring, NULL, capacity));
    for (uint32_t level = 1; level <= capacity; level++)
        for (int round = 0; round < 20; round++) {
            while (pushed - popped < level)
                push(pushed++);
            if (level == capacity)
                refuse_push();
            pop(popped++);
        }
    pst__ring_fini(&ring, NULL);
}
END_TEST

/* Counters that are about to wrap. */
START_TEST(test_counters_wrap)
{
    const uint32_t capacity = (uint32_t)_i;
    ck_assert(pst__ring_init(&ring, NULL, capacity));
    for (uint32_t before = 0; before <= capacity + 1; before++) {
        pst__ring_reset(&ring, UINT32_MAX - before);
        for (int round = 0; round < 4; round++) {
            refuse_pop();
            for (uint32_t i = 0; i < capacity; i++)
                push(i);
            refuse_push();
            for (uint32_t i = 0; i < capacity; i++)
                pop(i);
        }
        ck_assert_uint_lt(ring.tail, UINT32_MAX / 2);
    }
    pst__ring_fini(&ring, NULL);
}
END_TEST

START_TEST(test_reset_empties)
{
    ck_assert(pst__ring_init(&ring, NULL, 3));
    for (uint32_t i = 0; i < 3; i++)
        push(i);
    pst__ring_reset(&ring, 7);
    refuse_pop();
    for (uint32_t i = 0; i < 3; i++)
        push(10 + i);
    refuse_push();
    pop(10);
    pst__ring_fini(&ring, NULL);
}
END_TEST

/* From each fill level, with counters that wrap meanwhile. */
START_TEST(test_clear_empties)
{
    ck_assert(pst__ring_init(&ring, NULL, 3));
    pst__ring_reset(&ring, UINT32_MAX - 8);
    for (uint32_t round = 0; round < 16; round++) {
        for (uint32_t i = 0; i < round % 4; i++)
            push(i);
        if (round % 4 > 1)
            pop(0);
        pst__ring_clear(&ring);
        refuse_pop();
    }
    for (uint32_t i = 0; i < 3; i++)
        push(i);
    refuse_push();
    pst__ring_fini(&ring, NULL);
}
END_TEST

START_TEST(test_check_sees_damage)
{
    ck_assert(pst__ring_init(&ring, NULL, 3));
    push(0);
    push(1);
    pop(0);
    ring.tail = atomic_load(&ring.head) + 4;
    ck_assert(!pst__ring_check(&ring));
    pst__ring_reset(&ring, 0);
    ring.head_seen = 1;
    ck_assert(!pst__ring_check(&ring));
    pst__ring_reset(&ring, 0);
    atomic_store(&ring.slot[0].count, 1);
    ck_assert(!pst__ring_check(&ring));
    pst__ring_reset(&ring, 0);
    push(0);
    atomic_store(&ring.slot[0].count, 0);
    ck_assert(!pst__ring_check(&ring));
    pst__ring_fini(&ring, NULL);
}
END_TEST

static void *nothing(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    (void)bytes;
    (void)alignment;
    return NULL;
}

static void refuse_release(void *user, void *memory)
{
    (void)user;
    (void)memory;
}

START_TEST(test_no_memory)
{
    const pst_env env = {.allocate = nothing, .release = refuse_release};
    memset(&ring, 0, sizeof ring);
    ck_assert(!pst__ring_init(&ring, &env, 4));
    ck_assert_ptr_null(ring.slot);
}
END_TEST

/* A word of each message lives in the producer's array: its write is seen after the
 * pop, and the producer writes it again only when the ring says that it is free. */
static uint32_t payload[MESSAGES];

static void *produce(void *unused)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        pst_message message = numbered(i);
        payload[i] = ~i;
        message.data = &payload[i];
        while (!pst__ring_push(&ring, &message))
            sched_yield();
    }
    return unused;
}

static uint32_t consume(void)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        pst_message message;
        while (!pst__ring_pop(&ring, &message))
            sched_yield();
        if (!is_numbered(&message, i) || message.data != &payload[i] ||
            *(uint32_t *)message.data != ~i)
            return i;
    }
    return MESSAGES;
}

START_TEST(test_two_threads)
{
    static const uint32_t capacities[] = {1, 2, 3, 64};
    pst_thread producer;
    ck_assert(pst__ring_init(&ring, NULL, capacities[_i]));
    pst__ring_reset(&ring, UINT32_MAX - MESSAGES / 2);
    ck_assert_int_eq(pst__thread_start(&producer, produce, NULL, "producer", NULL),
                     PST_OK);
    const uint32_t right = consume();
    ck_assert_uint_eq(right, MESSAGES);
    pst__thread_join(&producer);
    refuse_pop();
    pst__ring_fini(&ring, NULL);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("ring");
    TCase *alone = tcase_create("one thread");
    tcase_set_timeout(alone, 120);
    tcase_add_loop_test(alone, test_fill_and_empty, 1, 18);
    tcase_add_test(alone, test_every_fill_level);
    tcase_add_loop_test(alone, test_counters_wrap, 1, 10);
    tcase_add_test(alone, test_reset_empties);
    tcase_add_test(alone, test_clear_empties);
    tcase_add_test(alone, test_check_sees_damage);
    tcase_add_test(alone, test_no_memory);
    suite_add_tcase(suite, alone);
    TCase *threads = tcase_create("two threads");
    tcase_set_timeout(threads, 120);
    tcase_add_loop_test(threads, test_two_threads, 0, 4);
    suite_add_tcase(suite, threads);
    return suite;
}
