/* SPDX-License-Identifier: BSD-3-Clause */
/* test_env.c - memory and log lines, from the defaults and from the caller. */
#include <stdint.h>
#include <string.h>

#include <penstock/env.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

enum { ALIGNMENT = 64 };

static void assert_zeroed(const unsigned char *memory, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && memory[i] == 0)
        i++;
    ck_assert_uint_eq(i, bytes);
}

static const size_t sizes[] = {1, 7, 63, 64, 65, 4095, 1000000};

START_TEST(memory_is_zeroed_and_aligned)
{
    /* Twice, so that the second may get what the first made dirty. */
    for (int round = 0; round < 2; round++) {
        unsigned char *memory = pst_allocate(NULL, sizes[_i]);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % ALIGNMENT, 0);
        assert_zeroed(memory, sizes[_i]);
        memset(memory, 0xff, sizes[_i]);
        pst_release(NULL, memory);
    }
}
END_TEST

START_TEST(no_bytes_give_unique_pointers)
{
    void *a = pst_allocate(NULL, 0), *b = pst_allocate(NULL, 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_ne(a, b);
    pst_release(NULL, a);
    pst_release(NULL, b);
}
END_TEST

START_TEST(no_memory_gives_null)
{
    counting c = {.fail_at = 1};
    pst_env env = counting_env(&c);
    ck_assert_ptr_null(pst_allocate(&env, 8));
    c.fail_at = 1;
    ck_assert_ptr_null(pst_allocate_array(&env, 8, 8));
}
END_TEST

START_TEST(overflow_gives_null_and_asks_nobody)
{
    counting c = {0};
    pst_env env = counting_env(&c);
    ck_assert_ptr_null(pst_allocate_array(&env, SIZE_MAX / 2 + 1, 2));
    ck_assert_ptr_null(pst_allocate_array(&env, SIZE_MAX / 8 + 1, 8));
    ck_assert_ptr_null(pst_allocate_array(&env, SIZE_MAX, SIZE_MAX));
    ck_assert_int_eq(c.allocated, 0);
}
END_TEST

START_TEST(arrays_are_zeroed_and_may_be_empty)
{
    unsigned char *memory = pst_allocate_array(NULL, 100, 3);
    ck_assert_ptr_nonnull(memory);
    assert_zeroed(memory, 300);
    pst_release(NULL, memory);
    memory = pst_allocate_array(NULL, 0, 0);
    ck_assert_ptr_nonnull(memory);
    pst_release(NULL, memory);
}
END_TEST

START_TEST(grow_keeps_and_zeroes)
{
    unsigned char *memory = pst_allocate(NULL, 10);
    memset(memory, 7, 10);
    memory = pst_grow(NULL, memory, 10, 5000);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq((uintptr_t)memory % ALIGNMENT, 0);
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(memory[i], 7);
    assert_zeroed(memory + 10, 4990);
    memory = pst_grow(NULL, memory, 5000, 4); /* smaller works as well */
    ck_assert_uint_eq(memory[3], 7);
    pst_release(NULL, memory);
}
END_TEST

START_TEST(grow_from_nothing)
{
    unsigned char *memory = pst_grow(NULL, NULL, 0, 16);
    ck_assert_ptr_nonnull(memory);
    assert_zeroed(memory, 16);
    pst_release(NULL, memory);
}
END_TEST

START_TEST(a_failed_grow_leaves_the_old_block)
{
    counting c = {0};
    pst_env env = counting_env(&c);
    char *memory = pst_copy_text(&env, "kept");
    c.fail_at = 2;
    ck_assert_ptr_null(pst_grow(&env, memory, 5, 100));
    ck_assert_int_eq(c.released, 0);
    ck_assert_str_eq(memory, "kept");
    pst_release(&env, memory);
    ck_assert_int_eq(c.released, 1);
}
END_TEST

START_TEST(copy_text)
{
    const char *text = "0F0,0B0";
    char *copy = pst_copy_text(NULL, text);
    ck_assert_ptr_ne(copy, text);
    ck_assert_str_eq(copy, text);
    pst_release(NULL, copy);
    counting c = {.fail_at = 1};
    pst_env env = counting_env(&c);
    ck_assert_ptr_null(pst_copy_text(&env, text));
}
END_TEST

START_TEST(release_of_null)
{
    counting c = {0};
    pst_env env = counting_env(&c);
    pst_release(NULL, NULL);
    pst_release(&env, NULL);
    ck_assert_int_eq(c.released, 0);
}
END_TEST

START_TEST(members_left_null_have_defaults)
{
    pst_env env = {0};
    void *memory = pst_allocate(&env, 10);
    ck_assert_ptr_nonnull(memory);
    pst_release(&env, memory);
    pst_log(&env, PST_LOG_ERROR, "nobody hears this");
}
END_TEST

/* An allocator whose blocks are dirty and which checks what it is asked for. */
static void *dirty_allocate(void *user, size_t bytes, size_t alignment)
{
    void *memory = count_allocate(user, bytes, alignment);
    ck_assert_uint_eq(alignment, ALIGNMENT);
    ck_assert_uint_gt(bytes, 0);
    if (memory != NULL)
        memset(memory, 0xa5, bytes);
    return memory;
}

START_TEST(custom_memory_is_zeroed_too)
{
    counting c = {0};
    pst_env env = {.allocate = dirty_allocate, .release = count_release, .user = &c};
    unsigned char *memory = pst_allocate(&env, 500);
    assert_zeroed(memory, 500);
    pst_release(&env, memory);
    pst_release(&env, pst_allocate(&env, 0));
    ck_assert_int_eq(c.allocated, 2);
    ck_assert_int_eq(c.released, 2);
}
END_TEST

/* The struct is copied: the caller's may be gone when the object is destroyed. */
START_TEST(objects_give_everything_back)
{
    counting c = {0};
    pst_env env = {.allocate = dirty_allocate, .release = count_release, .user = &c};
    pst_error err = PST_ERROR_INIT;
    pst_shape shape = {.ranks = 3, .microbatches = 20};
    pst_schedule *schedule;
    pst_simulation *simulation;
    ck_assert_int_eq(pst_schedule_create(&env, "1f1b", &shape, &schedule, &err),
                     PST_OK);
    ck_assert_int_eq(pst_simulate(&env, schedule, NULL, &simulation, &err), PST_OK);
    ck_assert_int_gt(c.allocated, 0);
    memset(&env, 0, sizeof env);
    pst_simulation_destroy(simulation);
    pst_schedule_destroy(schedule);
    ck_assert_int_eq(c.allocated, c.released);
}
END_TEST

typedef struct heard {
    int lines;
    pst_log_level level;
    char text[2048];
} heard;

static void hear(void *user, pst_log_level level, const char *text)
{
    heard *h = user;
    h->lines++;
    h->level = level;
    snprintf(h->text, sizeof h->text, "%s", text);
}

START_TEST(log_reaches_the_callback)
{
    heard h = {0};
    pst_env env = {.log = hear, .user = &h};
    pst_log(&env, (pst_log_level)_i, "rank %d %s", 3, "waits");
    ck_assert_int_eq(h.lines, 1);
    ck_assert_int_eq((int)h.level, _i);
    ck_assert_str_eq(h.text, "rank 3 waits");
}
END_TEST

START_TEST(log_cuts_long_lines)
{
    heard h = {0};
    pst_env env = {.log = hear, .user = &h};
    pst_log(&env, PST_LOG_INFO, "%2000d", 1);
    ck_assert_uint_eq(strlen(h.text), 1023);
}
END_TEST

START_TEST(log_without_ears)
{
    pst_log(NULL, PST_LOG_ERROR, "%d", 1);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("env");
    TCase *memory = tcase_create("memory");
    tcase_add_loop_test(memory, memory_is_zeroed_and_aligned, 0,
                        sizeof sizes / sizeof *sizes);
    tcase_add_test(memory, no_bytes_give_unique_pointers);
    tcase_add_test(memory, no_memory_gives_null);
    tcase_add_test(memory, overflow_gives_null_and_asks_nobody);
    tcase_add_test(memory, arrays_are_zeroed_and_may_be_empty);
    tcase_add_test(memory, grow_keeps_and_zeroes);
    tcase_add_test(memory, grow_from_nothing);
    tcase_add_test(memory, a_failed_grow_leaves_the_old_block);
    tcase_add_test(memory, copy_text);
    tcase_add_test(memory, release_of_null);
    suite_add_tcase(suite, memory);

    TCase *custom = tcase_create("custom");
    tcase_add_test(custom, members_left_null_have_defaults);
    tcase_add_test(custom, custom_memory_is_zeroed_too);
    tcase_add_test(custom, objects_give_everything_back);
    suite_add_tcase(suite, custom);

    TCase *log = tcase_create("log");
    tcase_add_loop_test(log, log_reaches_the_callback, PST_LOG_ERROR,
                        PST_LOG_TRACE + 1);
    tcase_add_test(log, log_cuts_long_lines);
    tcase_add_test(log, log_without_ears);
    suite_add_tcase(suite, log);
    return suite;
}
