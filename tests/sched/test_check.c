/* SPDX-License-Identifier: BSD-3-Clause */
/* test_check.c - lists that can be run pass; each fault has its exact message. */
#include <string.h>

#include <penstock/check.h>
#include <penstock/lower.h>
#include <penstock/registry.h>

#include "sched/deadlock.h"
#include "tests/sched/support.h"
#include "tests/suite.h"

static pst_schedule *make(const char *name, int ranks, int microbatches)
{
    pst_schedule *schedule = NULL;
    pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    ck_assert_int_eq(pst_schedule_create(NULL, name, &shape, &schedule, NULL), PST_OK);
    return schedule;
}

/* ---- lists that pass ---------------------------------------------------- */

static const char *const valid[] = {
    "0F0", /* forwards only            */
    "0F0,0F1\n1F1,1F0\n",
    "0F0,0B0\n",
    "0F0,0I0,0W0\n",
    "0F0,0F1,0I0,0B1,0W0\n", /* B and I, W mixed         */
    "0F0,0B0\n1F0,1B0\n",
    "1F0,1B0\n0F0,0B0\n", /* stages upside down       */
    "0F0,,,0B0,\n,1F0,1B0\n",
    "0F0,2F0,2B0,0B0\n1F0,1B0\n", /* two stages on a rank     */
    "0F0,1F0,1B0,0B0\n",
    "0F0,1F0,1B0,0B0\n\n", /* a rank that does nothing */
    "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n",
    "0F0,(0B0;0F1)OVERLAP_F_B,0B1\n",
    "0F0,(0F1;0I0)OVERLAP_F_B,0B1,0W0\n",
    "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
    "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n",
    "0F0,0SEND_F0\n1RECV_F0,1F0\n",
};

START_TEST(valid_lists_pass)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse(valid[_i]);
    pst_status status = pst_schedule_check(NULL, schedule, &err);
    ck_assert_msg(status == PST_OK, "%s: %s", valid[_i], err.text);
    ck_assert_int_eq((int)err.status, PST_OK);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(generated_lists_pass)
{
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 9; m++) {
            pst_error err = PST_ERROR_INIT;
            pst_schedule *schedule = make(_i == 0 ? "gpipe" : "1f1b", p, m);
            pst_schedule_check(NULL, schedule, &err);
            ck_assert_msg(err.status == PST_OK, "p=%d m=%d: %s", p, m, err.text);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* ---- faults ------------------------------------------------------------- */

typedef struct fault {
    const char *list;
    int line;
    const char *text;
} fault;

static const fault extended_faults[] = {
    /* EVICT and LOAD */
    {"0EVICT0,0F0,0LOAD0,0B0\n1F0,1B0\n", 1,
     "rank 0, cell 1 (0EVICT0): comes before 0F0"},
    {"0F0,0LOAD0,0B0\n1F0,1B0\n", 1, "rank 0, cell 2 (0LOAD0): comes before 0EVICT0"},
    {"0F0,0EVICT0,0B0,0LOAD0\n1F0,1B0\n", 1,
     "rank 0, cell 3 (0B0): comes before 0LOAD0"},
    {"0F0,0EVICT0,0LOAD0,0EVICT0,0B0\n1F0,1B0\n", 1,
     "rank 0, cell 4 (0EVICT0): stands here a second time"},
    {"0F0,0B0,0EVICT0,0LOAD0\n1F0,1B0\n", 1,
     "rank 0, cell 3 (0EVICT0): comes after the backward, which frees what it evicts"},
    {"0F0,0EVICT0\n1F0\n", 1, "rank 0: 0LOAD0 is missing"},
    {"0F0,1EVICT0,0B0\n1F0,1B0\n", 1, "rank 0, cell 2 (1EVICT0): stage 1 is on rank 1"},
    {"0F0,0EVICT0,0LOAD0,0B0\n", 1,
     "rank 0, cell 2 (0EVICT0): rank 0, in the middle of 1, has no partner to evict "
     "to"},
    /* STEP */
    {"0F0,0F1,0B0,0STEP0,0B1\n", 1, "rank 0: 0STEP1 is missing"},
    {"0F0,0F1,0B0,0STEP0,0B1,0STEP1\n1F0,1F1,1B0,1B1,1STEP1\n", 2,
     "rank 1: 1STEP0 is missing"},
    {"0F0,0F1,0B0,0STEP1,0B1\n", 1,
     "rank 0, cell 4 (0STEP1): comes before the backwards of its batch, microbatches 0 "
     "to "
     "1, have ended"},
    {"0F0,0F1,0B0,0B1,0STEP0,0STEP1\n", 1,
     "rank 0, cell 4 (0B1): comes before 0STEP0, whose sum it does not belong to"},
    {"0F0,0I0,0STEP0,0W0\n", 1,
     "rank 0, cell 3 (0STEP0): comes before the backwards of its batch, microbatches 0 "
     "to "
     "0, have ended"},
    {"0F0,0B0,0STEP0,0STEP0\n", 1,
     "rank 0, cell 4 (0STEP0): stands here a second time"},
};

START_TEST(faults_of_the_extended_grammar_are_named)
{
    pst_error err = PST_ERROR_INIT;
    const pst_csv_options options = {.extended = 1};
    const fault *f = &extended_faults[_i];
    pst_schedule *schedule = NULL;
    pst_schedule_parse_csv(NULL, "t.csv", f->list, strlen(f->list), &options, &schedule,
                           &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    ck_assert_int_eq((int)pst_schedule_check(NULL, schedule, &err), PST_ESCHEDULE);
    ck_assert_str_eq(err.text, f->text);
    ck_assert_int_eq(err.line, f->line);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Batch 2 uses what batch 0 makes. */
START_TEST(two_versions_are_enough)
{
    static const char list[] = "0F0,0F1,0F2,0B0,0STEP0,0B1,0STEP1,0B2,0STEP2\n";
    pst_error err = PST_ERROR_INIT;
    for (int policy = 0; policy < 2; policy++) {
        const pst_csv_options options = {.extended = 1,
                                         .weight_policy = (pst_weight_policy)policy};
        pst_schedule *schedule = NULL;
        pst_schedule_parse_csv(NULL, "t.csv", list, sizeof list - 1, &options,
                               &schedule, &err);
        ck_assert_msg(schedule != NULL, "%s", err.text);
        pst_schedule_check(NULL, schedule, &err);
        ck_assert_str_eq(err.text,
                         policy == PST_VERSIONS_STASH
                             ? ""
                             : "rank 0, cell 3 (0F2): comes before 0STEP0, which makes "
                               "the weights that its batch uses");
        pst_schedule_destroy(schedule);
    }
}
END_TEST

static const fault faults[] = {
    /* missing */
    {"0F0,0B0,0B1\n", 1, "rank 0, cell 3 (0B1): comes before 0F1"},
    {"0F0,0F1\n1F0\n", 2, "rank 1: 1F1 is missing"},
    {"0F0,0F1,0B0,0B1\n1F0,1F1,1B1\n", 2, "rank 1: 1B0 is missing"},
    {"0F0,0W0\n", 1, "rank 0, cell 2 (0W0): comes before 0I0"},
    {"0F0,0F1,0I0,0I1,0W0\n", 1, "rank 0: 0W1 is missing"},
    {"0F0,0F1,0I0\n1F0,1F1,1B0,1B1\n", 1, "rank 0: 0W0 is missing"},
    {"0F0,0F1,0B0\n1F0,1F1,1B0,1B1\n", 1, "rank 0: 0B1 is missing"},
    /* twice */
    {"0F0,0F0,0B0\n", 1, "rank 0, cell 2 (0F0): stands here a second time"},
    {"0F0,0B0\n1F0,1B0,1B0\n", 2, "rank 1, cell 3 (1B0): stands here a second time"},
    {"0F0,0I0,0I0,0W0\n", 1, "rank 0, cell 3 (0I0): stands here a second time"},
    {"0F0,0I0,0W0,0W0\n", 1, "rank 0, cell 4 (0W0): stands here a second time"},
    /* order */
    {"0B0,0F0\n", 1, "rank 0, cell 1 (0B0): comes before 0F0"},
    {"0I0,0F0,0W0\n", 1, "rank 0, cell 1 (0I0): comes before 0F0"},
    {"0F0,,,0W0,0I0\n", 1, "rank 0, cell 4 (0W0): comes before 0I0"},
    /* both kinds of backward */
    {"0F0,0F1,0B0,0B1,0W0\n", 1,
     "rank 0, cell 5 (0W0): stage 0 has both a full backward (B) and a split one (I, "
     "W) of "
     "microbatch 0"},
    {"0F0,0I0,0B0\n", 1,
     "rank 0, cell 3 (0B0): stage 0 has both a full backward (B) and a split one (I, "
     "W) of "
     "microbatch 0"},
    {"0F0,0B0,0I0\n", 1,
     "rank 0, cell 3 (0I0): stage 0 has both a full backward (B) and a split one (I, "
     "W) of "
     "microbatch 0"},
    /* placement */
    {"0F0,0B0\n1F0,1B0\n,0F0\n", 3,
     "rank 2, cell 2 (0F0): stage 0 stands on rank 0 already; a stage has one rank"},
    {"0F0,1F0\n1B0,0B0\n", 2,
     "rank 1, cell 2 (0B0): stage 0 stands on rank 0 already; a stage has one rank"},
    {"0F0,0B0,2F0,2B0\n", 0,
     "t.csv: stage 1 is on no rank; each of the 3 stages needs one"},
    {"0F0\n1UNSHARD\n", 0,
     "t.csv: stage 1 is on no rank; each of the 2 stages needs one"},
    /* pairs */
    {"0F0,0F1,(0F2;0F3)OVERLAP_F_B\n", 1,
     "rank 0, cell 3 (0F2): a pair is one forward and one backward (B or I) action"},
    {"0F0,0F1,(0B0;0I1)OVERLAP_F_B,0W1\n", 1,
     "rank 0, cell 3 (0B0): a pair is one forward and one backward (B or I) action"},
    /* messages */
    {"0F0\n1RECV_F0,1F0\n", 1, "rank 0: 0SEND_F0 is missing"},
    {"0F0,0SEND_F0\n1F0\n", 2, "rank 1: 1RECV_F0 is missing"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n", 2, "rank 1: 1SEND_B0 is missing"},
    {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", 1, "rank 0: 0RECV_B0 is missing"},
    {"0SEND_F0,0F0\n1RECV_F0,1F0\n", 1,
     "rank 0, cell 1 (0SEND_F0): is sent before it is made"},
    {"0F0,0SEND_F0\n1F0,1RECV_F0\n", 2,
     "rank 1, cell 2 (1RECV_F0): is received after it was used"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0\n", 2,
     "rank 1, cell 3 (1SEND_B0): is sent before it is made"},
    {"0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", 1,
     "rank 0, cell 4 (0RECV_B0): is received after it was used"},
    {"0F0,0SEND_F0,0SEND_F0\n1RECV_F0,1F0\n", 1,
     "rank 0, cell 3 (0SEND_F0): stands here a second time"},
    {"0F0,0SEND_F0,1RECV_F0\n1RECV_F0,1F0\n", 1,
     "rank 0, cell 3 (1RECV_F0): stage 1 is on rank 1"},
    {"0F0,0SEND_F0\n1RECV_F0,1F0,1SEND_F0\n", 2,
     "rank 1, cell 3 (1SEND_F0): there is no stage on the other side"},
    {"0RECV_F0,0F0,0B0\n", 1,
     "rank 0, cell 1 (0RECV_F0): there is no stage on the other side"},
    {"0F0,0B0,0SEND_B0\n", 1,
     "rank 0, cell 3 (0SEND_B0): there is no stage on the other side"},
    {"0RECV_B0,0F0,0B0\n", 1,
     "rank 0, cell 1 (0RECV_B0): there is no stage on the other side"},
    {"0F0,0SEND_F0,1RECV_F0,1F0\n", 0,
     "t.csv: stages 0 and 1 are on one rank, but a message of microbatch 0 is sent or "
     "received between them"},
};

/* Lists of two slices a sequence: valid where there is no text. */
static const fault sliced[] = {
    {"0F0,0F1,0F2,0F3,0B1,0B3,0B2,0B0\n", 0, NULL},
    {"0F2,0F0,0F3,0F1,0I3,0I1,0I0,0W0,0W1,0I2,0W2,0W3\n", 0, NULL},
    {"0F0,0F1,0B1,0I0,0W0\n1F0,1F1,1I1,1W1,1B0\n", 0, NULL},
    {"0F0,0F1,(0F2;0B1)OVERLAP_F_B,(0B0;0F3)OVERLAP_F_B,0B3,0B2\n", 0, NULL},
    {"0F1,0F0\n", 1,
     "rank 0, cell 1 (0F1): comes before 0F0; the slices of a microbatch go forward in "
     "their order"},
    {"0F0,0F1\n,1F0,1F3,1F2,1F1\n", 2,
     "rank 1, cell 3 (1F3): comes before 1F2; the slices of a microbatch go forward in "
     "their order"},
    {"0F0,0F1,0B0,0B1\n", 1,
     "rank 0, cell 3 (0B0): comes before 0B1; the slices of a microbatch go back from "
     "the last to the first"},
    {"0F0,0F1,0F2,0F3,0I1,0I0,0I2,0I3,0W0,0W1,0W2,0W3\n", 1,
     "rank 0, cell 7 (0I2): comes before 0B3; the slices of a microbatch go back from "
     "the last to the first"},
};

START_TEST(slices_have_an_order)
{
    const fault *f = &sliced[_i];
    const pst_csv_options options = {.slices = 2};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_schedule_parse_csv(NULL, "t.csv", f->list, strlen(f->list), &options, &schedule,
                           &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    const pst_status status = pst_schedule_check(NULL, schedule, &err);
    if (f->text == NULL)
        ck_assert_msg(status == PST_OK, "%s: %s", f->list, err.text);
    else
        assert_error(&err, PST_ESCHEDULE, "t.csv", f->line, f->text);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(faults_are_named)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse(faults[_i].list);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_ESCHEDULE);
    assert_error(&err, PST_ESCHEDULE, faults[_i].line > 0 ? "t.csv" : "",
                 faults[_i].line, faults[_i].text);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, NULL), PST_ESCHEDULE);
    pst_schedule_destroy(schedule);
}
END_TEST

/* PyTorch's visualizer writes such files: the last rank begins with forward 1. */
START_TEST(a_known_bad_file)
{
    char path[PATH_SIZE];
    pst_error err = PST_ERROR_INIT;
    const char *name = "pytorch-1f1b-ir-known-bad_p4_m8_v1.csv";
    pst_schedule *schedule = read_data(name);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_ESCHEDULE);
    data_path(name, path)[sizeof err.file - 1] = 0;
    assert_error(&err, PST_ESCHEDULE, path, 4,
                 "rank 3, cell 2 (3B0): comes before 3F0");
    pst_schedule_destroy(schedule);
}
END_TEST

static pst_schedule *build(const pst_action *actions, int count)
{
    pst_schedule_builder *builder;
    pst_schedule *schedule;
    ck_assert_int_eq(pst_schedule_builder_create(NULL, 1, 1, 4, &builder, NULL),
                     PST_OK);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pst_schedule_builder_append(builder, 0, actions[i], NULL),
                         PST_OK);
    ck_assert_int_eq(pst_schedule_builder_finish(builder, "own", NULL, &schedule, NULL),
                     PST_OK);
    return schedule;
}

/* Files cannot have these: a first of a pair at the end, and three in a row. */
START_TEST(pairs_that_are_none)
{
    static const pst_action last[] = {{0, 0, PST_OP_FORWARD, 0},
                                      {0, 0, PST_OP_BACKWARD, 1}};
    static const pst_action three[] = {{0, 0, PST_OP_FORWARD, 0},
                                       {1, 0, PST_OP_FORWARD, 1},
                                       {0, 0, PST_OP_BACKWARD, 1},
                                       {2, 0, PST_OP_FORWARD, 0}};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = _i == 0 ? build(last, 2) : build(three, 4);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_ESCHEDULE);
    assert_error(&err, PST_ESCHEDULE, "", 0,
                 _i == 0 ? "rank 0, cell 2 (0B0): is paired with no second action"
                         : "rank 0, cell 2 (0F1): is paired with no second action");
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- deadlocks ---------------------------------------------------------- */

static const fault deadlocks[] = {
    {"0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", 1,
     "deadlock: rank 0 waits in 0B0 (cell 2) for 1B0 of rank 1, rank 1 waits in 1F1 "
     "(cell "
     "2) for 0F1 of rank 0"},
    {"0F0,,0B0,0F1,0B1\n,1F0,1F1,1I0,1W0,1B1\n", 1,
     "deadlock: rank 0 waits in 0B0 (cell 3) for 1I0 of rank 1, rank 1 waits in 1F1 "
     "(cell "
     "3) for 0F1 of rank 0"},
    {"1F0,0F0\n", 1, "deadlock: rank 0 waits in 1F0 (cell 1) for 0F0 of rank 0"},
    /* Three ranks around, and a fourth that waits for one of them. */
    {"3F0,0F0\n4F0,1F0\n5F0,2F0\n6F0\n", 1,
     "deadlock: rank 0 waits in 3F0 (cell 1) for 2F0 of rank 2, rank 2 waits in 5F0 "
     "(cell "
     "1) for 4F0 of rank 1, rank 1 waits in 4F0 (cell 1) for 3F0 of rank 0"},
    /* The cycle does not hold the first rank that waits. */
    {"2F0\n1F0,3F0\n4F0,0F0\n", 2,
     "deadlock: rank 1 waits in 1F0 (cell 1) for 0F0 of rank 2, rank 2 waits in 4F0 "
     "(cell "
     "1) for 3F0 of rank 1"},
    /* A pair begins when both of its parts can. */
    {"0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1F1,1B0,1B1\n", 1,
     "deadlock: rank 0 waits in 0F1 (cell 2) for 1B0 of rank 1, rank 1 waits in 1F1 "
     "(cell "
     "2) for 0F1 of rank 0"},
    /* Receives count where a list has them, also with sends that do not wait. */
    {"0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", 1,
     "deadlock: rank 0 waits in 0RECV_B0 (cell 2) for 1SEND_B0 of rank 1, rank 1 waits "
     "in "
     "1RECV_F0 (cell 1) for 0SEND_F0 of rank 0"},
};

START_TEST(deadlocks_are_named)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse(deadlocks[_i].list);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_EDEADLOCK);
    assert_error(&err, PST_EDEADLOCK, "t.csv", deadlocks[_i].line, deadlocks[_i].text);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Rank r begins with stage p + r, and wants p + r - 1, or p - 1 on rank 0. */
static pst_schedule *ring(int ranks)
{
    pst_schedule_builder *builder;
    pst_schedule *schedule;
    ck_assert_int_eq(
        pst_schedule_builder_create(NULL, ranks, 2 * ranks, 1, &builder, NULL), PST_OK);
    for (int rank = 0; rank < ranks; rank++)
        for (int chunk = 1; chunk >= 0; chunk--) {
            pst_action a = {.stage = (uint16_t)(chunk * ranks + rank)};
            ck_assert_int_eq(pst_schedule_builder_append(builder, rank, a, NULL),
                             PST_OK);
        }
    ck_assert_int_eq(
        pst_schedule_builder_finish(builder, "ring", NULL, &schedule, NULL), PST_OK);
    return schedule;
}

/* A long cycle is shown in part, and says so. */
START_TEST(long_cycles_are_cut)
{
    static const int ranks[] = {13, 1000, 30000};
    static const char end[] = ", and so on";
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = ring(ranks[_i]);
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_EDEADLOCK);
    ck_assert_int_eq(strncmp(err.text, "deadlock: rank 0 waits in ", 26), 0);
    ck_assert_str_eq(err.text + strlen(err.text) - strlen(end), end);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- sends that wait ---------------------------------------------------- */

START_TEST(gpipe_passes_with_rendezvous)
{
    for (int p = 1; p <= 5; p++)
        for (int m = 1; m <= 6; m++) {
            pst_error err = PST_ERROR_INIT;
            pst_schedule *schedule = make("gpipe", p, m);
            pst_schedule_check_rendezvous(NULL, schedule, &err);
            ck_assert_msg(err.status == PST_OK, "p=%d m=%d: %s", p, m, err.text);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

static const char *const one_f_one_b_text =
    "deadlock: rank 0 waits in 0SEND_F1 (cell 4) for 1RECV_F1 of rank 1, rank 1 waits "
    "in "
    "1SEND_B0 (cell 4) for 0RECV_B0 of rank 0";

START_TEST(one_f_one_b_deadlocks_with_rendezvous)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = make("1f1b", 2, 2);
    ck_assert_int_eq(pst_schedule_check_rendezvous(NULL, schedule, &err),
                     PST_EDEADLOCK);
    assert_error(&err, PST_EDEADLOCK, "", 0, one_f_one_b_text);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Cells of data parallelism are no messages: the list is still without them. */
START_TEST(rendezvous_with_other_cells)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule =
        parse("0UNSHARD,0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1REDUCE_GRAD\n");
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_OK);
    ck_assert_int_eq(pst_schedule_check_rendezvous(NULL, schedule, &err),
                     PST_EDEADLOCK);
    ck_assert_int_eq(strncmp(err.text, "deadlock: rank 0 waits in 0SEND_F1 ", 35), 0);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(lowered_lists_pass_with_rendezvous)
{
    for (int p = 1; p <= 5; p++)
        for (int m = 1; m <= 6; m++) {
            pst_error err = PST_ERROR_INIT;
            pst_schedule *schedule = make("1f1b", p, m), *lowered = NULL;
            ck_assert_int_eq(pst_schedule_lower(NULL, schedule, &lowered, &err),
                             PST_OK);
            pst_schedule_check(NULL, lowered, &err);
            pst_schedule_check_rendezvous(NULL, lowered, &err);
            ck_assert_msg(err.status == PST_OK, "p=%d m=%d: %s", p, m, err.text);
            pst_schedule_destroy(lowered);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* Valid where sends end at once, not where they wait. */
START_TEST(a_list_with_messages_stands_as_it_is)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule =
        parse("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
              "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
    ck_assert_int_eq(pst_schedule_check(NULL, schedule, &err), PST_OK);
    ck_assert_int_eq(pst_schedule_check_rendezvous(NULL, schedule, &err),
                     PST_EDEADLOCK);
    assert_error(&err, PST_EDEADLOCK, "t.csv", 1, one_f_one_b_text);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- the walk itself ---------------------------------------------------- */

typedef struct visits {
    char text[ROW_SIZE];
    int left; /* so many more, then an error                                   */
} visits;

static pst_status note(void *user, int rank, pst_action action, pst_error *err)
{
    visits *v = user;
    size_t used = strlen(v->text);
    char text[32];
    if (v->left-- == 0)
        return pst_error_set(err, PST_ECALLBACK, "enough");
    pst_action_text(action, text, sizeof text);
    snprintf(v->text + used, sizeof v->text - used, "%d:%s ", rank, text);
    return PST_OK;
}

START_TEST(the_order_goes_round_by_round)
{
    visits v = {.left = 100};
    pst_schedule *schedule = make("1f1b", 2, 2);
    ck_assert_int_eq(pst__topological_order(NULL, schedule, note, &v, NULL), PST_OK);
    ck_assert_str_eq(v.text, "0:0F0 1:1F0 0:0F1 1:1B0 0:0B0 1:1F1 1:1B1 0:0B1 ");
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(a_visit_may_stop_the_walk)
{
    visits v = {.left = 3};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = make("1f1b", 2, 2);
    ck_assert_int_eq(pst__topological_order(NULL, schedule, note, &v, &err),
                     PST_ECALLBACK);
    ck_assert_str_eq(v.text, "0:0F0 1:1F0 0:0F1 ");
    ck_assert_str_eq(err.text, "enough");
    pst_schedule_destroy(schedule);
}
END_TEST

/* A list that was not checked may wait for what no row has. */
START_TEST(what_never_happens)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = parse("0F0\n1F0,1F1\n");
    ck_assert_int_eq(pst__deadlock_check(NULL, schedule, PST__SENDS_BUFFERED, &err),
                     PST_EDEADLOCK);
    assert_error(&err, PST_EDEADLOCK, "t.csv", 2,
                 "rank 1 waits in 1F1 (cell 2) for 0F1, which never happens");
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(each_allocation_may_fail)
{
    pst_schedule *schedule = make("gpipe", 3, 20);
    pst_status status = PST_ENOMEM;
    for (int at = 1; status != PST_OK && at < 200; at++) {
        pst_error err = PST_ERROR_INIT;
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = pst_schedule_check(&env, schedule, &err);
        if (status == PST_OK)
            status = pst_schedule_check_rendezvous(&env, schedule, &err);
        if (status == PST_OK)
            status = pst_schedule_check_capacity(&env, schedule, 0, &err);
        int least;
        if (status == PST_OK)
            status = pst_schedule_least_capacity(&env, schedule, &least, &err);
        ck_assert_int_eq(c.allocated, c.released);
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
    }
    ck_assert_int_eq(status, PST_OK);
    pst_schedule_destroy(schedule);
}
END_TEST

static void add_faults(Suite *suite)
{
    TCase *bad = tcase_create("faults");
    tcase_add_loop_test(bad, faults_are_named, 0, sizeof faults / sizeof *faults);
    tcase_add_loop_test(bad, faults_of_the_extended_grammar_are_named, 0,
                        sizeof extended_faults / sizeof *extended_faults);
    tcase_add_test(bad, two_versions_are_enough);
    tcase_add_loop_test(bad, slices_have_an_order, 0, sizeof sliced / sizeof *sliced);
    tcase_add_test(bad, a_known_bad_file);
    tcase_add_loop_test(bad, pairs_that_are_none, 0, 2);
    suite_add_tcase(suite, bad);

    TCase *stuck = tcase_create("deadlock");
    tcase_add_loop_test(stuck, deadlocks_are_named, 0,
                        sizeof deadlocks / sizeof *deadlocks);
    tcase_add_loop_test(stuck, long_cycles_are_cut, 0, 3);
    suite_add_tcase(suite, stuck);
}

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("check");
    TCase *good = tcase_create("valid");
    tcase_add_loop_test(good, valid_lists_pass, 0, sizeof valid / sizeof *valid);
    tcase_add_loop_test(good, generated_lists_pass, 0, 2);
    tcase_add_test(good, each_allocation_may_fail);
    suite_add_tcase(suite, good);
    add_faults(suite);

    TCase *rendezvous = tcase_create("rendezvous");
    tcase_add_test(rendezvous, gpipe_passes_with_rendezvous);
    tcase_add_test(rendezvous, one_f_one_b_deadlocks_with_rendezvous);
    tcase_add_test(rendezvous, rendezvous_with_other_cells);
    tcase_add_test(rendezvous, lowered_lists_pass_with_rendezvous);
    tcase_add_test(rendezvous, a_list_with_messages_stands_as_it_is);
    suite_add_tcase(suite, rendezvous);

    TCase *walk = tcase_create("walk");
    tcase_add_test(walk, the_order_goes_round_by_round);
    tcase_add_test(walk, a_visit_may_stop_the_walk);
    tcase_add_test(walk, what_never_happens);
    suite_add_tcase(suite, walk);
    return suite;
}
