/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_steady.c - a run allocates nothing, however long its list is.
 *
 * Counts the calls of malloc and its kin between two looks. Sanitizers bring an
 * allocator of their own, so there is nothing to count under them.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/pipeline.h>
#include <penstock/registry.h>
#include <penstock/stream.h>

#include "stages/atomic.h"
#include "tests/suite.h"

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) &&                            \
    !defined(__SANITIZE_THREAD__) && !HAS_FEATURE(address_sanitizer) &&                \
    !HAS_FEATURE(thread_sanitizer)
#define CAN_COUNT 1
#else
#define CAN_COUNT 0
#endif

static pst_atomic_u64 allocations;

#if CAN_COUNT
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void count(void)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t bytes)
{
    count();
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    count();
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : ENOMEM;
}
#endif

static pst_status nothing(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)work, (void)err;
    return PST_OK;
}

static pst_pipeline *make_pipeline(const char *kind, int ranks, int microbatches)
{
    pst_error err = PST_ERROR_INIT;
    const pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    pst_schedule *schedule = NULL;
    pst_pipeline *pipeline = NULL;
    pst_stage stages[8];
    int rank_of_stage[8], program;
    ck_assert_int_eq(pst_schedule_create(NULL, kind, &shape, &schedule, &err), PST_OK);
    const int count = pst_schedule_stages(schedule);
    for (int stage = 0; stage < count; stage++) {
        rank_of_stage[stage] = pst_schedule_rank_of(schedule, stage);
        stages[stage] = (pst_stage){.input_bytes = stage > 0 ? 64 : 0,
                                    .output_bytes = stage < count - 1 ? 64 : 0,
                                    .saved_for_input_bytes = 64,
                                    .weight_bytes = 64,
                                    .gradient_count = 16,
                                    .forward = nothing,
                                    .backward_input = nothing,
                                    .backward_weight = nothing};
    }
    ck_assert_int_eq(pst_pipeline_create(NULL, stages, count, rank_of_stage, ranks,
                                         NULL, &pipeline, &err),
                     PST_OK);
    ck_assert_int_eq(pst_pipeline_load(pipeline, schedule, &program, &err), PST_OK);
    pst_schedule_destroy(schedule);
    return pipeline;
}

static void run(pst_pipeline *pipeline, int64_t iteration)
{
    pst_error err = PST_ERROR_INIT;
    /* What Check's own assertions allocate would be counted. */
    if (pst_pipeline_run(pipeline, 0, 0, iteration, &err) != PST_OK)
        ck_abort_msg("%s", err.text);
}

static const char *const kinds[] = {"gpipe", "1f1b", "zb-v", "interleaved", "zb-h1"};

START_TEST(test_pipeline_allocates_nothing)
{
    for (int ranks = 1; ranks <= 4; ranks++) {
        pst_pipeline *pipeline = make_pipeline(kinds[_i], ranks, 24);
        run(pipeline, 0);
        const uint64_t before = allocations;
        for (int64_t iteration = 1; iteration <= 50; iteration++)
            run(pipeline, iteration);
        ck_assert_uint_eq(allocations, before);
        pst_pipeline_destroy(pipeline);
    }
}
END_TEST

static pst_status make_items(void *self, pst_stream_item *item, pst_error *err)
{
    (void)err;
    item->end = item->number == *(uint64_t *)self;
    return PST_OK;
}

static pst_status take_item(void *self, pst_stream_item *item, pst_error *err)
{
    (void)self, (void)item, (void)err;
    return PST_OK;
}

static uint64_t stream_allocations(uint64_t items)
{
    pst_error err = PST_ERROR_INIT;
    pst_stream *stream = NULL;
    const pst_stream_stage stages[] = {{.run = make_items, .self = &items},
                                       {.run = take_item, .replicas = 2},
                                       {.run = take_item}};
    ck_assert_int_eq(pst_stream_create(NULL, stages, 3, NULL, &stream, &err), PST_OK);
    const uint64_t before = allocations;
    if (pst_stream_run(stream, NULL, &err) != PST_OK)
        ck_abort_msg("%s", err.text);
    const uint64_t count = allocations - before;
    pst_stream_destroy(stream);
    return count;
}

START_TEST(test_stream_allocates_nothing)
{
    ck_assert_uint_eq(stream_allocations(10), 0);
    ck_assert_uint_eq(stream_allocations(20000), 0);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("steady");
    TCase *all = tcase_create("steady");
    tcase_add_loop_test(all, test_pipeline_allocates_nothing, 0,
                        (int)(sizeof kinds / sizeof *kinds));
    tcase_add_test(all, test_stream_allocates_nothing);
    suite_add_tcase(suite, all);
    return suite;
}
