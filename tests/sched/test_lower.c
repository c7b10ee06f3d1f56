/* SPDX-License-Identifier: BSD-3-Clause */
/* test_lower.c - SEND and RECV cells as PyTorch puts them, and taken away again. */
#include <stdlib.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/lower.h>
#include <penstock/registry.h>

#include "sched/lower_in_time.h"
#include "tests/sched/support.h"
#include "tests/suite.h"

static pst_schedule *make(const char *name, int ranks, int microbatches)
{
    pst_schedule *schedule = NULL;
    pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    ck_assert_int_eq(pst_schedule_create(NULL, name, &shape, &schedule, NULL), PST_OK);
    return schedule;
}

static pst_schedule *lower(const pst_schedule *schedule)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *lowered = NULL;
    pst_schedule_lower(NULL, schedule, &lowered, &err);
    ck_assert_msg(lowered != NULL, "%s", err.text);
    return lowered;
}

static pst_schedule *compute_only(const pst_schedule *schedule)
{
    pst_schedule *rest = NULL;
    ck_assert_int_eq(pst_schedule_compute_only(NULL, schedule, &rest, NULL), PST_OK);
    return rest;
}

/* ---- against PyTorch's -------------------------------------------------- */

static const struct {
    const char *schedule;
    int ranks, microbatches;
} references[] = {
    {"gpipe", 2, 2}, {"gpipe", 2, 4}, {"gpipe", 4, 4}, {"gpipe", 4, 8},
    {"1f1b", 2, 2},  {"1f1b", 2, 4},  {"1f1b", 4, 4},  {"1f1b", 4, 8},
};

START_TEST(lowered_as_by_pytorch)
{
    char name[80];
    snprintf(name, sizeof name, "comms/pytorch-%s_p%d_m%d_v1_sendrecv.csv",
             references[_i].schedule, references[_i].ranks,
             references[_i].microbatches);
    pst_schedule *wanted = read_data(name);
    pst_schedule *schedule = make(references[_i].schedule, references[_i].ranks,
                                  references[_i].microbatches);
    pst_schedule *lowered = lower(schedule), *rest = compute_only(wanted);
    assert_same_list(lowered, wanted);
    assert_same_list(rest, schedule);
    pst_schedule_destroy(rest);
    pst_schedule_destroy(lowered);
    pst_schedule_destroy(schedule);
    pst_schedule_destroy(wanted);
}
END_TEST

START_TEST(compute_only_is_the_inverse)
{
    const char *name = _i == 0 ? "gpipe" : "1f1b";
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 8; m++) {
            pst_schedule *schedule = make(name, p, m), *lowered = lower(schedule);
            pst_schedule *rest = compute_only(lowered);
            assert_same_list(rest, schedule);
            ck_assert_str_eq(pst_schedule_name(lowered), name);
            ck_assert_str_eq(pst_schedule_name(rest), name);
            ck_assert_uint_eq(pst_schedule_action_count(lowered),
                              (size_t)(2 * m * (3 * p - 2)));
            pst_schedule_destroy(rest);
            pst_schedule_destroy(lowered);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* Sends and receives of each rank pair and direction come in the same order. */
static void assert_first_in_first_out(const pst_schedule *s, int from, int to)
{
    char sent[ROW_SIZE] = "", received[ROW_SIZE] = "";
    for (int k = 0; k < 2; k++) {
        size_t count, used = 0;
        char *text = k == 0 ? sent : received;
        const pst_action *row = pst_schedule_row(s, k == 0 ? from : to, &count);
        for (size_t i = 0; i < count; i++) {
            int forward =
                row[i].op == (k == 0 ? PST_OP_SEND_FORWARD : PST_OP_RECEIVE_FORWARD);
            int backward =
                row[i].op == (k == 0 ? PST_OP_SEND_BACKWARD : PST_OP_RECEIVE_BACKWARD);
            int other = row[i].stage + ((k == 0) == (forward != 0) ? 1 : -1);
            if ((!forward && !backward) ||
                pst_schedule_rank_of(s, other) != (k == 0 ? to : from))
                continue;
            used += (size_t)snprintf(text + used, ROW_SIZE - used, "%d%c%u ",
                                     k == 0 ? row[i].stage : other, forward ? 'F' : 'B',
                                     (unsigned)row[i].microbatch);
        }
    }
    ck_assert_str_eq(sent, received);
}

START_TEST(rank_pairs_are_first_in_first_out)
{
    pst_schedule *schedule = parse("0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n"
                                   "1F0,2F0,1F1,2F1,2B0,1B0,2I1,1B1,2W1\n");
    pst_schedule *lowered = lower(schedule);
    pst_error err = PST_ERROR_INIT;
    pst_schedule_check(NULL, lowered, &err);
    pst_schedule_check_rendezvous(NULL, lowered, &err);
    ck_assert_msg(err.status == PST_OK, "%s", err.text);
    assert_first_in_first_out(lowered, 0, 1);
    assert_first_in_first_out(lowered, 1, 0);
    pst_schedule_destroy(lowered);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- by hand ------------------------------------------------------------ */

static const struct {
    const char *list;
    const char *rows[2];
} by_hand[] = {
    /* No messages between stages of one rank, nor where there is one stage. */
    {"0F0,1F0,1B0,0B0\n\n", {"0F0 1F0 1B0 0B0", ""}},
    {"0F0,0I0,0W0\n\n", {"0F0 0I0 0W0", ""}},
    {"0F0,0B0\n1F0,1B0\n", {"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}},
    /* I sends its gradient before its W. */
    {"0F0,0I0,0W0\n1F0,1I0,1W0\n",
     {"0F0 0SEND_F0 0RECV_B0 0I0 0W0", "1RECV_F0 1F0 1I0 1SEND_B0 1W0"}},
    /* Forwards only. */
    {"0F0,0F1\n1F0,1F1\n", {"0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F0 1F0 1RECV_F1 1F1"}},
    /* A rank that holds both ends. */
    {"0F0,2F0,2B0,0B0\n1F0,1B0\n",
     {"0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 0RECV_B0 0B0",
      "1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0"}},
    /* A pair sends after both of its parts, in their order. */
    {"1F0,(1F1;1B0)OVERLAP_F_B,1B1\n0F0,2F0,2B0,0F1,2F1,2B1,0B0,0B1\n",
     {"1RECV_F0 1F0 1SEND_F0 1RECV_B0 1RECV_F1 (1F1 1B0 1SEND_F1 1SEND_B0 1RECV_B1 1B1 "
      "1SEND_B1",
      "0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 0F1 0SEND_F1 2RECV_F1 0RECV_B0 2F1 2B1 "
      "2SEND_B1 0RECV_B1 0B0 0B1"}},
    /* Idle cells are left behind. */
    {"0F0,,,0B0\n,,1F0,1B0,\n",
     {"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}},
};

START_TEST(lowered_by_hand)
{
    char row[ROW_SIZE];
    pst_schedule *schedule = parse(by_hand[_i].list);
    pst_schedule *lowered = lower(schedule);
    for (int rank = 0; rank < 2; rank++)
        ck_assert_str_eq(row_text(lowered, rank, row), by_hand[_i].rows[rank]);
    ck_assert_ptr_null(pst_schedule_file(lowered));
    ck_assert_str_eq(pst_schedule_name(lowered), "t.csv");
    pst_schedule_destroy(lowered);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(lowered_in_time)
{
    char row[ROW_SIZE];
    pst_schedule *schedule = parse("0F0,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n"
                                   "1F0,1B0,1F1,1B1\n");
    pst_schedule *lowered = NULL;
    ck_assert_int_eq(pst__lower_in_time(NULL, schedule, &lowered, NULL), PST_OK);
    ck_assert_str_eq(row_text(lowered, 0, row),
                     "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0I1 0W1");
    ck_assert_str_eq(row_text(lowered, 1, row),
                     "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1");
    pst_schedule_destroy(lowered);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(compute_only_keeps_what_computes)
{
    char row[ROW_SIZE];
    pst_schedule *schedule = parse(
        "0UNSHARD,,0F0,0SEND_F0,(0F1;0B0)OVERLAP_F_B,0RECV_B1,0I1,0W1,0REDUCE_GRAD,"
        "0RESHARD\n0RECV_F0\n");
    pst_schedule *rest = compute_only(schedule);
    ck_assert_str_eq(row_text(rest, 0, row), "0F0 (0F1 0B0 0I1 0W1");
    ck_assert_str_eq(row_text(rest, 1, row), "");
    ck_assert_uint_eq(pst_schedule_cell(rest, 0, 0), 1);
    pst_schedule_destroy(rest);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- refused ------------------------------------------------------------ */

static const struct {
    const char *list;
    pst_status status;
    const char *file;
    int line;
    const char *text;
} refused[] = {
    {"0F0,0SEND_F0\n1RECV_F0,1F0\n", PST_ESCHEDULE, "", 0,
     "t.csv: has SEND, RECV or FSDP cells already; messages can be added to a list "
     "without them only"},
    {"0UNSHARD,0F0\n", PST_ESCHEDULE, "", 0,
     "t.csv: has SEND, RECV or FSDP cells already; messages can be added to a list "
     "without them only"},
    {"1F0,0F0\n", PST_EDEADLOCK, "t.csv", 1,
     "deadlock: rank 0 waits in 1F0 (cell 1) for 0F0 of rank 0"},
    {"0F0\n1F1\n", PST_EDEADLOCK, "t.csv", 2,
     "rank 1 waits in 1F1 (cell 1) for 0F1, which never happens"},
};

START_TEST(lists_that_cannot_be_lowered)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse(refused[_i].list), *lowered = NULL;
    ck_assert_int_eq(pst_schedule_lower(NULL, schedule, &lowered, &err),
                     refused[_i].status);
    assert_error(&err, refused[_i].status, refused[_i].file, refused[_i].line,
                 refused[_i].text);
    ck_assert_ptr_null(lowered);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Forwards on rank 0, all of them marked as the first of a pair. */
static pst_schedule *chain_of_pairs(uint32_t microbatches)
{
    pst_schedule_builder *builder;
    pst_schedule *schedule;
    ck_assert_int_eq(
        pst_schedule_builder_create(NULL, 2, 2, (int)microbatches, &builder, NULL),
        PST_OK);
    for (uint16_t stage = 0; stage < 2; stage++)
        for (uint32_t i = 0; i < microbatches; i++) {
            pst_action a = {.microbatch = i, .stage = stage, .op = PST_OP_FORWARD};
            a.paired = stage == 0;
            ck_assert_int_eq(pst_schedule_builder_append(builder, stage, a, NULL),
                             PST_OK);
        }
    ck_assert_int_eq(pst_schedule_builder_finish(builder, "own", NULL, &schedule, NULL),
                     PST_OK);
    return schedule;
}

/* A list that nobody checked: an error, or a message for each forward on its rank. */
START_TEST(a_chain_of_pairs)
{
    pst_schedule *schedule = chain_of_pairs(64), *lowered = NULL;
    if (pst_schedule_lower(NULL, schedule, &lowered, NULL) == PST_OK)
        for (int rank = 0; rank < 2; rank++) {
            size_t count;
            pst_schedule_row(lowered, rank, &count);
            ck_assert_uint_eq(count, 128);
        }
    pst_schedule_destroy(lowered);
    pst_schedule_destroy(schedule);
}
END_TEST

static pst_status lower_and_back(const pst_env *env, const pst_schedule *schedule,
                                 pst_error *err)
{
    pst_schedule *lowered, *rest;
    pst_status status = pst_schedule_lower(env, schedule, &lowered, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_compute_only(env, lowered, &rest, err);
    pst_schedule_destroy(lowered);
    if (status == PST_OK)
        pst_schedule_destroy(rest);
    return status;
}

START_TEST(each_allocation_may_fail)
{
    pst_schedule *schedule = make("1f1b", 3, 20);
    pst_status status = PST_ENOMEM;
    for (int at = 1; status != PST_OK && at < 200; at++) {
        pst_error err = PST_ERROR_INIT;
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = lower_and_back(&env, schedule, &err);
        ck_assert_int_eq(c.allocated, c.released);
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
    }
    ck_assert_int_eq(status, PST_OK);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Each way is what it says it is; pairs stay together in all. */
START_TEST(ways_of_lowering)
{
    static const struct {
        const char *name;
        pst_shape shape;
        int parity_works;
    } lists[] = {
        {"1f1b", {.ranks = 4, .microbatches = 8}, 1},
        {"gpipe", {.ranks = 4, .microbatches = 4}, 0},
        {"zb-v", {.ranks = 4, .microbatches = 8}, 0},
        {"dualpipev", {.ranks = 3, .microbatches = 7}, 0},
        {"dualpipe", {.ranks = 4, .microbatches = 8}, 0},
        {"1f1b", {.ranks = 1, .microbatches = 3}, 1},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int how = PST_LOWER_EARLY; how <= PST_LOWER_PARITY; how++) {
            pst_error err = PST_ERROR_INIT;
            pst_schedule *made = NULL, *lowered = NULL, *again = NULL;
            pst_schedule_create(NULL, lists[i].name, &lists[i].shape, &made, &err);
            ck_assert_msg(made != NULL, "%s", err.text);
            pst_schedule_lower_as(NULL, made, (pst_lowering)how, &lowered, &err);
            ck_assert_msg((lowered != NULL) ==
                              (how != PST_LOWER_PARITY || lists[i].parity_works),
                          "%s, way %d: %s", lists[i].name, how, err.text);
            if (lowered != NULL) {
                ck_assert_int_eq(pst_schedule_check(NULL, lowered, &err), PST_OK);
                ck_assert_int_eq(pst_schedule_compute_only(NULL, lowered, &again, &err),
                                 PST_OK);
                assert_same_list(again, made);
                if (how != PST_LOWER_IN_TIME)
                    ck_assert_int_eq(pst_schedule_check_rendezvous(NULL, lowered, &err),
                                     PST_OK);
            } else {
                ck_assert_int_eq(err.status, PST_EDEADLOCK);
            }
            pst_schedule_destroy(again);
            pst_schedule_destroy(lowered);
            pst_schedule_destroy(made);
        }
}
END_TEST

/* Both sides of a message have its tag, and no other message has it. */
static void assert_tags(const pst_schedule *lowered)
{
    const size_t most = 2 * (size_t)pst_schedule_stages(lowered) *
                        (size_t)pst_schedule_microbatches(lowered);
    unsigned char *sides = calloc(most, 1);
    ck_assert_ptr_nonnull(sides);
    for (int rank = 0; rank < pst_schedule_ranks(lowered); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(lowered, rank, &count);
        for (size_t i = 0; i < count; i++) {
            const int64_t tag = pst_schedule_tag(lowered, row[i]);
            ck_assert_int_eq(tag < 0, pst_op_describe(row[i].op)->computes);
            if (tag < 0)
                continue;
            ck_assert_int_lt(tag, (int64_t)most);
            const int receives = row[i].op == PST_OP_RECEIVE_FORWARD ||
                                 row[i].op == PST_OP_RECEIVE_BACKWARD;
            ck_assert_int_eq(sides[tag] & (1 << receives), 0);
            sides[tag] |= (unsigned char)(1 << receives);
        }
    }
    for (size_t tag = 0; tag < most; tag++)
        ck_assert(sides[tag] == 0 || sides[tag] == 3);
    free(sides);
}

START_TEST(messages_have_tags)
{
    static const char *const kinds[] = {"gpipe", "1f1b", "zb-v", "dualpipe", "hanayo"};
    for (int kind = 0; kind < 5; kind++) {
        pst_schedule *made = make(kinds[kind], 4, 8), *lowered = lower(made);
        const int64_t last = 2 * pst_schedule_stages(lowered) *
                                 (int64_t)pst_schedule_microbatches(lowered) -
                             1;
        pst_error err = PST_ERROR_INIT;
        assert_tags(lowered);
        ck_assert_int_eq(pst_schedule_check_tags(lowered, last, &err), PST_OK);
        ck_assert_int_eq(pst_schedule_check_tags(lowered, last - 1, &err),
                         PST_ESCHEDULE);
        pst_schedule_destroy(lowered);
        pst_schedule_destroy(made);
    }
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("lower");
    TCase *lists = tcase_create("lists");
    tcase_add_test(lists, ways_of_lowering);
    tcase_add_test(lists, messages_have_tags);
    tcase_add_loop_test(lists, lowered_as_by_pytorch, 0,
                        sizeof references / sizeof *references);
    tcase_add_loop_test(lists, compute_only_is_the_inverse, 0, 2);
    tcase_add_test(lists, rank_pairs_are_first_in_first_out);
    tcase_add_loop_test(lists, lowered_by_hand, 0, sizeof by_hand / sizeof *by_hand);
    tcase_add_test(lists, lowered_in_time);
    tcase_add_test(lists, compute_only_keeps_what_computes);
    suite_add_tcase(suite, lists);

    TCase *bad = tcase_create("refused");
    tcase_add_loop_test(bad, lists_that_cannot_be_lowered, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(bad, a_chain_of_pairs);
    tcase_add_test(bad, each_allocation_may_fail);
    suite_add_tcase(suite, bad);
    return suite;
}
