/* SPDX-License-Identifier: BSD-3-Clause */
/* test_schedule.c - the builder, the rows that it makes, the table of operations. */
#include <limits.h>
#include <string.h>

#include <penstock/schedule.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

static pst_schedule_builder *begin(int ranks, int stages, int microbatches)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder = NULL;
    pst_schedule_builder_create(NULL, ranks, stages, microbatches, &builder, &err);
    ck_assert_msg(builder != NULL, "%s", err.text);
    return builder;
}

static pst_action action(int op, int stage, uint32_t microbatch)
{
    return (pst_action){
        .microbatch = microbatch, .stage = (uint16_t)stage, .op = (uint8_t)op};
}

static void add(pst_schedule_builder *builder, int rank, int op, int stage, uint32_t i)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder_append(builder, rank, action(op, stage, i), &err);
    ck_assert_msg(err.status == PST_OK, "%s", err.text);
}

static pst_schedule *finish(pst_schedule_builder *builder, const char *file)
{
    pst_schedule *schedule = NULL;
    pst_schedule_builder_finish(builder, "name", file, &schedule, NULL);
    ck_assert_ptr_nonnull(schedule);
    return schedule;
}

/* ---- bounds ------------------------------------------------------------- */

static const struct {
    int ranks, stages, microbatches;
    const char *text;
} bad_shapes[] = {
    {0, 1, 1, "0 ranks: must be 1 to 65535"},
    {-1, 1, 1, "-1 ranks: must be 1 to 65535"},
    {65536, 1, 1, "65536 ranks: must be 1 to 65535"},
    {1, 0, 1, "0 stages: must be 1 to 65535"},
    {1, 65536, 1, "65536 stages: must be 1 to 65535"},
    {1, INT_MIN, 1, "-2147483648 stages: must be 1 to 65535"},
    {1, 1, 0, "0 microbatches: must be at least 1"},
    {1, 1, -5, "-5 microbatches: must be at least 1"},
};

START_TEST(shapes_out_of_bounds)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder = NULL;
    ck_assert_int_eq(
        pst_schedule_builder_create(NULL, bad_shapes[_i].ranks, bad_shapes[_i].stages,
                                    bad_shapes[_i].microbatches, &builder, &err),
        PST_EINVAL);
    assert_error(&err, PST_EINVAL, "", 0, bad_shapes[_i].text);
    ck_assert_ptr_null(builder);
}
END_TEST

START_TEST(largest_shapes)
{
    pst_schedule_builder *builder = begin(65535, 65535, INT_MAX);
    add(builder, 65534, PST_OP_FORWARD, 65534, INT_MAX - 1);
    pst_schedule *schedule = finish(builder, NULL);
    char text[32];
    size_t count;
    const pst_action *row = pst_schedule_row(schedule, 65534, &count);
    ck_assert_str_eq(pst_action_text(row[0], text, sizeof text), "65534F2147483646");
    ck_assert_int_eq(pst_schedule_rank_of(schedule, 65534), 65534);
    pst_schedule_destroy(schedule);
}
END_TEST

static const struct {
    int rank;
    pst_action action;
    const char *text;
} bad_actions[] = {
    {-1, {0, 0, PST_OP_FORWARD, 0}, "rank -1: there are 2"},
    {2, {0, 0, PST_OP_FORWARD, 0}, "rank 2: there are 2"},
    {0, {0, 0, PST_OP_COUNT, 0}, "operation 14: unknown"},
    {0, {0, 0, 255, 0}, "operation 255: unknown"},
    {0, {0, 3, PST_OP_BACKWARD, 0}, "rank 0: '3B0': there are 3 stages"},
    {1, {0, 65535, PST_OP_FORWARD, 0}, "rank 1: '65535F0': there are 3 stages"},
    {1, {4, 2, PST_OP_FORWARD, 0}, "rank 1: '2F4': there are 4 microbatches"},
    {1, {4, 2, PST_OP_SEND_FORWARD, 0}, "rank 1: '2SEND_F4': there are 4 microbatches"},
    {1,
     {PST_NO_MICROBATCH, 2, PST_OP_BACKWARD_WEIGHT, 0},
     "rank 1: '2W4294967295': there are 4 microbatches"},
    {0,
     {PST_NO_MICROBATCH, 3, PST_OP_RESHARD, 0},
     "rank 0: '3RESHARD': there are 3 stages"},
};

START_TEST(actions_out_of_bounds)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder = begin(2, 3, 4);
    ck_assert_int_eq(pst_schedule_builder_append(builder, bad_actions[_i].rank,
                                                 bad_actions[_i].action, &err),
                     PST_ESCHEDULE);
    assert_error(&err, PST_ESCHEDULE, "", 0, bad_actions[_i].text);
    /* The builder goes on as if nothing had been appended. */
    pst_schedule *schedule = finish(builder, NULL);
    ck_assert_uint_eq(pst_schedule_action_count(schedule), 0);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- what was made ------------------------------------------------------ */

START_TEST(shape_and_names)
{
    pst_schedule *schedule = finish(begin(2, 3, 4), "list.csv");
    ck_assert_str_eq(pst_schedule_name(schedule), "name");
    ck_assert_str_eq(pst_schedule_file(schedule), "list.csv");
    ck_assert_int_eq(pst_schedule_ranks(schedule), 2);
    ck_assert_int_eq(pst_schedule_stages(schedule), 3);
    ck_assert_int_eq(pst_schedule_microbatches(schedule), 4);
    pst_schedule_destroy(schedule);
    schedule = finish(begin(1, 1, 1), NULL);
    ck_assert_ptr_null(pst_schedule_file(schedule));
    pst_schedule_destroy(schedule);
    pst_schedule_destroy(NULL);
}
END_TEST

START_TEST(rows_in_any_order)
{
    char row[ROW_SIZE];
    pst_schedule_builder *builder = begin(3, 2, 100);
    for (uint32_t i = 0; i < 100; i++) {
        add(builder, 2, PST_OP_FORWARD, 1, i);
        add(builder, 0, PST_OP_FORWARD, 0, 99 - i);
    }
    pst_schedule *schedule = finish(builder, NULL);
    ck_assert_uint_eq(pst_schedule_action_count(schedule), 200);
    ck_assert_int_eq(strncmp(row_text(schedule, 0, row), "0F99 0F98 0F97 ", 15), 0);
    ck_assert_str_eq(row_text(schedule, 1, row), "");
    ck_assert_int_eq(strncmp(row_text(schedule, 2, row), "1F0 1F1 1F2 1F3", 15), 0);
    size_t count;
    const pst_action *last = pst_schedule_row(schedule, 2, &count);
    ck_assert_uint_eq(count, 100);
    ck_assert_uint_eq(last[99].microbatch, 99);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(the_rank_of_a_stage)
{
    pst_schedule_builder *builder = begin(2, 4, 1);
    add(builder, 0, PST_OP_FORWARD, 3, 0);
    add(builder, 0, PST_OP_BACKWARD, 3, 0);
    add(builder, 0, PST_OP_FORWARD, 1, 0);
    add(builder, 1, PST_OP_BACKWARD, 1, 0);
    add(builder, 1, PST_OP_RECEIVE_FORWARD, 2, 0);
    add(builder, 1, PST_OP_BACKWARD_WEIGHT, 0, 0);
    add(builder, 0, PST_OP_UNSHARD, 0, PST_NO_MICROBATCH);
    pst_schedule *schedule = finish(builder, NULL);
    ck_assert_int_eq(pst_schedule_rank_of(schedule, 0), 1);
    ck_assert_int_eq(pst_schedule_rank_of(schedule, 1), -1); /* on two             */
    ck_assert_int_eq(pst_schedule_rank_of(schedule, 2), -1); /* is never computed  */
    ck_assert_int_eq(pst_schedule_rank_of(schedule, 3), 0);
    ck_assert_int_eq(pst_schedule_rank_of(schedule, 4), -1);
    ck_assert_int_eq(pst_schedule_rank_of(schedule, -1), -1);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(a_builder_may_be_given_up)
{
    pst_schedule_builder *builder = begin(2, 2, 2);
    add(builder, 1, PST_OP_FORWARD, 0, 0);
    pst_schedule_builder_idle(builder, 0, NULL);
    pst_schedule_builder_destroy(builder);
    pst_schedule_builder_destroy(NULL);
}
END_TEST

/* ---- cells -------------------------------------------------------------- */

/* ,,0F0,,0F1,0B0,, and then 0B1: cells 3, 5, 6 and 9. */
START_TEST(cells_count_idle_ones)
{
    static const int idle_before[] = {2, 1, 0, 2};
    static const size_t wanted[] = {3, 5, 6, 9};
    pst_schedule_builder *builder = begin(2, 1, 2);
    for (uint32_t i = 0; i < 4; i++) {
        for (int k = 0; k < idle_before[i]; k++)
            ck_assert_int_eq(pst_schedule_builder_idle(builder, 1, NULL), PST_OK);
        add(builder, 1, i < 2 ? PST_OP_FORWARD : PST_OP_BACKWARD, 0, i % 2);
    }
    pst_schedule_builder_idle(builder, 1, NULL);
    pst_schedule *schedule = finish(builder, NULL);
    ck_assert_uint_eq(pst_schedule_action_count(schedule), 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_uint_eq(pst_schedule_cell(schedule, 1, i), wanted[i]);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(many_idle_cells)
{
    pst_schedule_builder *builder = begin(1, 1, 100);
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_int_eq(pst_schedule_builder_idle(builder, 0, NULL), PST_OK);
        add(builder, 0, PST_OP_FORWARD, 0, i);
    }
    pst_schedule *schedule = finish(builder, NULL);
    for (size_t i = 0; i < 100; i++)
        ck_assert_uint_eq(pst_schedule_cell(schedule, 0, i), 2 * i + 2);
    pst_schedule_destroy(schedule);
}
END_TEST

/* In a file a pair is one cell. */
START_TEST(cells_count_a_pair_once)
{
    pst_schedule *schedule = parse("0F0,,(0F1;0B0)OVERLAP_F_B,,0B1\n");
    static const size_t wanted[] = {1, 3, 3, 5};
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(pst_schedule_cell(schedule, 0, i), wanted[i]);
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 3), wanted[3]);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(the_second_of_a_pair_is_in_its_cell)
{
    pst_schedule *schedule = parse("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 1), 2);
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 2), 2);
    ck_assert_uint_eq(pst_schedule_cell(schedule, 0, 3), 3);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- operations --------------------------------------------------------- */

static const struct {
    int op;
    uint32_t microbatch;
    const char *text, *name;
} op_texts[] = {
    {PST_OP_FORWARD, 5, "2F5", "forward"},
    {PST_OP_BACKWARD, 5, "2B5", "backward"},
    {PST_OP_BACKWARD_INPUT, 5, "2I5", "backward-input"},
    {PST_OP_BACKWARD_WEIGHT, 5, "2W5", "backward-weight"},
    {PST_OP_SEND_FORWARD, 5, "2SEND_F5", "send-forward"},
    {PST_OP_RECEIVE_FORWARD, 5, "2RECV_F5", "receive-forward"},
    {PST_OP_SEND_BACKWARD, 5, "2SEND_B5", "send-backward"},
    {PST_OP_RECEIVE_BACKWARD, 5, "2RECV_B5", "receive-backward"},
    {PST_OP_UNSHARD, PST_NO_MICROBATCH, "2UNSHARD", "unshard"},
    {PST_OP_RESHARD, PST_NO_MICROBATCH, "2RESHARD", "reshard"},
    {PST_OP_REDUCE_GRAD, PST_NO_MICROBATCH, "2REDUCE_GRAD", "reduce-gradient"},
    {PST_OP_EVICT, 5, "2EVICT5", "evict"},
    {PST_OP_LOAD, 5, "2LOAD5", "load"},
    {PST_OP_STEP, 5, "2STEP5", "step"},
};

START_TEST(action_text)
{
    char text[32];
    const pst_op_description *op = pst_op_describe(op_texts[_i].op);
    pst_action a = action(op_texts[_i].op, 2, op_texts[_i].microbatch);
    ck_assert_ptr_eq(pst_action_text(a, text, sizeof text), text);
    ck_assert_str_eq(text, op_texts[_i].text);
    ck_assert_str_eq(op->name, op_texts[_i].name);
    ck_assert_int_eq(op->has_microbatch, op_texts[_i].microbatch != PST_NO_MICROBATCH);
    ck_assert_int_eq(op->computes, _i < 4);
}
END_TEST

START_TEST(action_text_is_short)
{
    char text[32];
    pst_action_text(action(PST_OP_RECEIVE_BACKWARD, 65535, UINT32_MAX), text,
                    sizeof text);
    ck_assert_str_eq(text, "65535RECV_B4294967295");
    pst_action_text(action(99, 1, 2), text, sizeof text);
    ck_assert_str_eq(text, "1?");
    pst_action_text(action(PST_OP_SEND_FORWARD, 12, 3), text, 5);
    ck_assert_str_eq(text, "12SE");
}
END_TEST

START_TEST(unknown_operations)
{
    ck_assert_ptr_null(pst_op_describe(-1));
    ck_assert_ptr_null(pst_op_describe(PST_OP_COUNT));
    ck_assert_uint_eq(sizeof(pst_action), 8);
}
END_TEST

/* What one forward saves is freed once, by B or by W; LOAD brings back what EVICT took.
 */
START_TEST(what_operations_do)
{
    static const int saves[] = {1, 0, 0, 0}, frees[] = {0, 1, 0, 1};
    static const int output[] = {1, 0, 0, 0}, gradient[] = {0, 1, 1, 0};
    for (int op = 0; op < PST_OP_COUNT; op++) {
        const pst_op_description *about = pst_op_describe(op);
        ck_assert_int_eq(about->saves, op < 4 ? saves[op] : op == PST_OP_LOAD);
        ck_assert_int_eq(about->frees, op < 4 ? frees[op] : op == PST_OP_EVICT);
        ck_assert_int_eq(about->runs, op < 4 || op >= PST_OP_EVICT);
        ck_assert_int_eq(about->in_pytorch, op < PST_OP_EVICT);
        ck_assert_int_eq(about->makes_output, op < 4 ? output[op] : 0);
        ck_assert_int_eq(about->makes_input_grad, op < 4 ? gradient[op] : 0);
        ck_assert_uint_le(about->color, 0xffffff);
    }
}
END_TEST

/* ---- memory ------------------------------------------------------------- */

static pst_status build(const pst_env *env, pst_error *err)
{
    pst_schedule_builder *builder;
    pst_schedule *schedule;
    pst_status status = pst_schedule_builder_create(env, 2, 1, 100, &builder, err);
    if (status != PST_OK)
        return status;
    for (uint32_t i = 0; i < 100 && status == PST_OK; i++) {
        status = pst_schedule_builder_append(builder, 1, action(0, 0, i), err);
        if (status == PST_OK)
            status = pst_schedule_builder_idle(builder, 1, err);
    }
    if (status != PST_OK) {
        pst_schedule_builder_destroy(builder);
        return status;
    }
    status = pst_schedule_builder_finish(builder, "name", "file", &schedule, err);
    if (status == PST_OK)
        pst_schedule_destroy(schedule);
    return status;
}

START_TEST(each_allocation_may_fail)
{
    pst_status status = PST_ENOMEM;
    int at = 1;
    for (; status != PST_OK && at < 100; at++) {
        pst_error err = PST_ERROR_INIT;
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = build(&env, &err);
        ck_assert_int_eq(c.allocated, c.released);
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
    }
    ck_assert_int_gt(at, 10);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("schedule");
    TCase *bounds = tcase_create("bounds");
    tcase_add_loop_test(bounds, shapes_out_of_bounds, 0,
                        sizeof bad_shapes / sizeof *bad_shapes);
    tcase_add_test(bounds, largest_shapes);
    tcase_add_loop_test(bounds, actions_out_of_bounds, 0,
                        sizeof bad_actions / sizeof *bad_actions);
    suite_add_tcase(suite, bounds);

    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, shape_and_names);
    tcase_add_test(rows, rows_in_any_order);
    tcase_add_test(rows, the_rank_of_a_stage);
    tcase_add_test(rows, a_builder_may_be_given_up);
    tcase_add_test(rows, each_allocation_may_fail);
    suite_add_tcase(suite, rows);

    TCase *cells = tcase_create("cells");
    tcase_add_test(cells, cells_count_idle_ones);
    tcase_add_test(cells, many_idle_cells);
    tcase_add_test(cells, cells_count_a_pair_once);
    tcase_add_test(cells, the_second_of_a_pair_is_in_its_cell);
    suite_add_tcase(suite, cells);

    TCase *ops = tcase_create("ops");
    tcase_add_loop_test(ops, action_text, 0, sizeof op_texts / sizeof *op_texts);
    tcase_add_test(ops, action_text_is_short);
    tcase_add_test(ops, unknown_operations);
    tcase_add_test(ops, what_operations_do);
    suite_add_tcase(suite, ops);
    return suite;
}
