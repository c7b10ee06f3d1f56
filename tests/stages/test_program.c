/* SPDX-License-Identifier: BSD-3-Clause */
/* test_program.c - schedules that do not fit the pipeline they are loaded into. */
#include <check.h>

#include "stages/footprint.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

static toy t;
static toy_env memory;

static pst_pipeline *open_pipeline(int ranks)
{
    toy_env_init(&memory);
    return toy_create(&t, &memory.env, &(pst_pipeline_options){.bind = ranks % 2});
}

static void fresh_toy(int ranks)
{
    toy_init(&t, &(toy_shape){.stages = ranks, .ranks = ranks, .exact = true});
}

static void refuse(pst_pipeline *pipeline, pst_schedule *schedule, pst_status status,
                   const char *text)
{
    pst_error err = PST_ERROR_INIT;
    int program = -7;
    ck_assert_int_eq(pst_pipeline_load(pipeline, schedule, &program, &err), status);
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(program, -7);
    pst_schedule_destroy(schedule);
}

/* A good list still runs after those that were refused. */
static void close_pipeline(pst_pipeline *pipeline)
{
    pst_schedule *schedule = toy_named("1f1b", t.shape.ranks, 3);
    ck_assert_int_eq(toy_load(pipeline, schedule), 0);
    toy_run(&t, pipeline, 0, 3, 0);
    pst_schedule_destroy(schedule);
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
}

START_TEST(test_other_shape)
{
    fresh_toy(2);
    pst_pipeline *pipeline = open_pipeline(2);
    refuse(
        pipeline, toy_named("gpipe", 3, 2), PST_EINVAL,
        "schedule gpipe has 3 ranks and 3 stages; the pipeline has 2 and 2, and they "
        "must be the same");
    refuse(
        pipeline, toy_parse("0F0,1F0\n2F0\n"), PST_EINVAL,
        "schedule by hand has 2 ranks and 3 stages; the pipeline has 2 and 2, and they "
        "must be the same");
    close_pipeline(pipeline);
}
END_TEST

START_TEST(test_other_rank)
{
    fresh_toy(3);
    pst_pipeline *pipeline = open_pipeline(3);
    refuse(
        pipeline, toy_parse("0F0\n2F0\n1F0\n"), PST_EINVAL,
        "schedule by hand runs stage 1 on rank 2; its weights stand on rank 1 of this "
        "pipeline");
    close_pipeline(pipeline);
}
END_TEST

START_TEST(test_no_backward_callback)
{
    fresh_toy(3);
    t.stage[1].backward_input = NULL;
    pst_pipeline *pipeline = open_pipeline(3);
    pst_schedule *forward_only = toy_parse("0F0\n1F0\n2F0\n");
    refuse(pipeline, toy_named("1f1b", 3, 2), PST_EINVAL,
           "the schedule runs backward, and stage 1 has no backward_input callback");
    refuse(pipeline, toy_parse("0F0,0I0,0W0\n1F0,1I0,1W0\n2F0,2I0,2W0\n"), PST_EINVAL,
           "the schedule runs backward, and stage 1 has no backward_input callback");
    ck_assert_int_eq(toy_load(pipeline, forward_only), 0);
    ck_assert_int_eq(pst_pipeline_run(pipeline, 0, 0, 0, NULL), PST_OK);
    pst_schedule_destroy(forward_only);
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
}
END_TEST

/* Lists that no pipeline can run: the checker's words. */
START_TEST(test_not_valid)
{
    fresh_toy(2);
    pst_pipeline *pipeline = open_pipeline(2);
    pst_schedule *schedule = toy_parse("0F0,0B0\n1B0,1F0\n");
    pst_error err = PST_ERROR_INIT;
    int program = -7;
    ck_assert_int_eq(pst_pipeline_load(pipeline, schedule, &program, &err),
                     PST_ESCHEDULE);
    ck_assert(err.text[0] != '\0');
    pst_schedule_destroy(schedule);
    schedule = toy_parse("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
    err = (pst_error)PST_ERROR_INIT;
    ck_assert_int_eq(pst_pipeline_load(pipeline, schedule, &program, &err),
                     PST_EDEADLOCK);
    pst_schedule_destroy(schedule);
    ck_assert_int_eq(program, -7);
    close_pipeline(pipeline);
}
END_TEST

/* All programs share one set of buffers, as large as the largest needs. */
START_TEST(test_shared_buffers)
{
    pst_worker_info info;
    size_t bytes[10];
    fresh_toy(2);
    pst_pipeline *pipeline = open_pipeline(2);
    pst_pipeline_worker(pipeline, 0, &info);
    bytes[0] = info.memory_bytes;
    for (int m = 1; m < 10; m++) {
        pst_schedule *schedule = toy_named("gpipe", 2, m);
        toy_load(pipeline, schedule);
        pst_schedule_destroy(schedule);
        pst_pipeline_worker(pipeline, 0, &info);
        ck_assert_uint_gt(info.memory_bytes, bytes[m - 1]);
        bytes[m] = info.memory_bytes;
    }
    for (int m = 1; m < 10; m++) {
        pst_schedule *schedule = toy_named("1f1b", 2, m);
        toy_load(pipeline, schedule);
        pst_schedule_destroy(schedule);
    }
    pst_pipeline_worker(pipeline, 0, &info);
    ck_assert_uint_eq(info.memory_bytes, bytes[9]);
    pst_pipeline_destroy(pipeline);
    ck_assert_int_eq(memory.live, 0);
}
END_TEST

/* What is placed for a rank is what its lists were found to need, and no more. */
START_TEST(test_memory_is_as_planned)
{
    static const char *const names[] = {"1f1b", "zb-h1", "gpipe"};
    for (int i = 0; i < 3; i++)
        for (int m = 8; m <= TOY_MICROBATCHES; m += 8) {
            pst_worker_info info;
            pst_footprint *f = NULL;
            size_t resident[4];
            fresh_toy(4);
            pst_schedule *schedule = toy_named(names[i], 4, m);
            ck_assert_int_eq(pst__footprint_create(NULL, schedule, t.stage,
                                                   t.rank_of_stage, &f, NULL),
                             PST_OK);
            pst_pipeline *pipeline = open_pipeline(4);
            for (int rank = 0; rank < 4; rank++) {
                pst_pipeline_worker(pipeline, rank, &info);
                resident[rank] = info.memory_bytes;
            }
            toy_load(pipeline, schedule);
            for (int rank = 0; rank < 4; rank++) {
                pst_pipeline_worker(pipeline, rank, &info);
                ck_assert_uint_eq(info.memory_bytes,
                                  resident[rank] + f->rank[rank].bytes);
            }
            pst_pipeline_destroy(pipeline);
            pst__footprint_destroy(f);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("program");
    TCase *all = tcase_create("program");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, test_other_shape);
    tcase_add_test(all, test_other_rank);
    tcase_add_test(all, test_no_backward_callback);
    tcase_add_test(all, test_not_valid);
    tcase_add_test(all, test_shared_buffers);
    tcase_add_test(all, test_memory_is_as_planned);
    suite_add_tcase(suite, all);
    return suite;
}
