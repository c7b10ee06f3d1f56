/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_mutations.c - valid lists with one to three random changes get the verdict of a
 * checker that was written for this test and shares nothing with check.c, both ways.
 *
 * PST_TEST_CASES in the environment gives the number of cases (20,000).
 */
#include <stdlib.h>
#include <string.h>

#include <penstock/check.h>
#include <penstock/registry.h>

#include "tests/sched/support.h"
#include "tests/suite.h"

enum { RANKS = 4, STAGES = 8, MICROBATCHES = 6, CELLS = 160 };

typedef struct rows {
    int ranks, stages, microbatches, slices;
    pst_weight_policy policy;
    pst_action cell[RANKS][CELLS];
    int count[RANKS];
} rows;

/* Marsaglia's xorshift64. */
static uint64_t state = 88172645463325252u;

static int below(int count)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state >> 33) % count;
}

/* ---- the other checker ------------------------------------------------------- */

/* How often each operation stands there, and on which ranks. */
typedef struct tally {
    int seen[STAGES][MICROBATCHES][PST_OP_COUNT];
    int home[STAGES]; /* a bit a rank                                          */
    int backwards;
} tally;

static tally count_all(const rows *l)
{
    tally t;
    memset(&t, 0, sizeof t);
    for (int r = 0; r < l->ranks; r++)
        for (int i = 0; i < l->count[r]; i++) {
            const pst_action a = l->cell[r][i];
            t.seen[a.stage][a.microbatch][a.op]++;
            t.home[a.stage] |= 1 << r;
            t.backwards += a.op == PST_OP_BACKWARD || a.op == PST_OP_BACKWARD_INPUT ||
                           a.op == PST_OP_BACKWARD_WEIGHT;
        }
    return t;
}

static int counts_are_right(const rows *l, const tally *t)
{
    for (int s = 0; s < l->stages; s++) {
        if (t->home[s] == 0 || (t->home[s] & (t->home[s] - 1)) != 0)
            return 0;
        for (int i = 0; i < l->microbatches; i++) {
            const int *n = t->seen[s][i];
            const int whole = n[PST_OP_BACKWARD], in = n[PST_OP_BACKWARD_INPUT],
                      w = n[PST_OP_BACKWARD_WEIGHT];
            const int once =
                (whole == 1 && in == 0 && w == 0) || (whole == 0 && in == 1 && w == 1);
            if (n[PST_OP_FORWARD] != 1 || (t->backwards > 0 && !once))
                return 0;
        }
    }
    return 1;
}

/* Every rank gets to its end when each takes what is ready, over and over. */
static int all_end(const rows *l)
{
    int forward[STAGES][MICROBATCHES] = {{0}}, backward[STAGES][MICROBATCHES] = {{0}};
    int at[RANKS] = {0};
    for (int moved = 1; moved;) {
        moved = 0;
        for (int r = 0; r < l->ranks; r++) {
            if (at[r] == l->count[r])
                continue;
            const pst_action a = l->cell[r][at[r]];
            const int s = a.stage, i = (int)a.microbatch;
            int ready = 1;
            if (a.op == PST_OP_EVICT || a.op == PST_OP_LOAD || a.op == PST_OP_STEP)
                ready = 1;
            else if (a.op == PST_OP_FORWARD)
                ready = s == 0 || forward[s - 1][i];
            else if (a.op == PST_OP_BACKWARD_WEIGHT)
                ready = backward[s][i];
            else
                ready = forward[s][i] && (s + 1 == l->stages || backward[s + 1][i]);
            if (!ready)
                continue;
            forward[s][i] |= a.op == PST_OP_FORWARD;
            backward[s][i] |= a.op == PST_OP_BACKWARD || a.op == PST_OP_BACKWARD_INPUT;
            at[r]++;
            moved = 1;
        }
    }
    for (int r = 0; r < l->ranks; r++)
        if (at[r] < l->count[r])
            return 0;
    return 1;
}

/* Where that stands in its row, or -1. */
static int place(const rows *l, int stage, int microbatch, int op)
{
    for (int r = 0; r < l->ranks; r++)
        for (int i = 0; i < l->count[r]; i++) {
            const pst_action a = l->cell[r][i];
            if (a.stage == stage && (int)a.microbatch == microbatch && a.op == op)
                return i;
        }
    return -1;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The action that gives a gradient its last part. */
static int end_place(const rows *l, int stage, int microbatch)
{
    return larger(place(l, stage, microbatch, PST_OP_BACKWARD),
                  place(l, stage, microbatch, PST_OP_BACKWARD_WEIGHT));
}

/* F, EVICT, LOAD, backward: in this order, both or neither of the middle ones. */
static int moves_are_right(const rows *l, const tally *t)
{
    for (int s = 0; s < l->stages; s++)
        for (int i = 0; i < l->microbatches; i++) {
            const int *n = t->seen[s][i];
            const int out = place(l, s, i, PST_OP_EVICT),
                      back = place(l, s, i, PST_OP_LOAD);
            const int begin = larger(place(l, s, i, PST_OP_BACKWARD),
                                     place(l, s, i, PST_OP_BACKWARD_INPUT));
            if (n[PST_OP_EVICT] != n[PST_OP_LOAD] || n[PST_OP_EVICT] > 1)
                return 0;
            if (n[PST_OP_EVICT] == 0)
                continue;
            if (l->ranks % 2 == 1 && t->home[s] == 1 << (l->ranks / 2))
                return 0; /* the middle rank */
            if (place(l, s, i, PST_OP_FORWARD) > out || out > back ||
                (begin >= 0 && back > begin))
                return 0;
        }
    return 1;
}

/* One STEP: behind its batch first .. last, in front of the gradients behind it and,
 * with two versions, of the forwards of the batch after the next. */
static int step_is_right(const rows *l, int stage, int first, int last, int after_next)
{
    const int at = place(l, stage, last, PST_OP_STEP);
    for (int i = first; i < l->microbatches; i++) {
        const int end = end_place(l, stage, i);
        if (end < 0 || (i <= last) != (end < at))
            return 0;
        if (l->policy == PST_VERSIONS_DOUBLE && i > after_next &&
            place(l, stage, i, PST_OP_FORWARD) < at)
            return 0;
    }
    return 1;
}

static int steps_are_right(const rows *l, const tally *t)
{
    int steps = 0, last_is_there = 1;
    for (int s = 0; s < l->stages; s++)
        for (int i = 0; i < l->microbatches; i++) {
            const int n = t->seen[s][i][PST_OP_STEP];
            if (n > 1 || n != t->seen[0][i][PST_OP_STEP])
                return 0;
            steps += n;
            last_is_there &= i + 1 < l->microbatches || n == 1;
        }
    if (steps == 0)
        return 1;
    if (l->slices > 1)
        return 0;
    for (int s = 0; s < l->stages && last_is_there; s++)
        for (int i = 0, first = 0; i < l->microbatches; i++) {
            if (t->seen[s][i][PST_OP_STEP] == 0)
                continue;
            int next = i + 1; /* the last of the batch behind this one */
            while (next < l->microbatches && t->seen[s][next][PST_OP_STEP] == 0)
                next++;
            if (!step_is_right(l, s, first, i, next))
                return 0;
            first = i + 1;
        }
    return last_is_there;
}

/* Where in its row stands the action of these operations, a bit each? */
static int place_of(const rows *l, int ops, int stage, int unit)
{
    for (int r = 0; r < l->ranks; r++)
        for (int i = 0; i < l->count[r]; i++)
            if (((1 << l->cell[r][i].op) & ops) != 0 && l->cell[r][i].stage == stage &&
                (int)l->cell[r][i].microbatch == unit)
                return i;
    return -1;
}

/* Of any two neighbours in a microbatch the earlier goes forward first, and back last.
 */
static int slices_are_in_order(const rows *l)
{
    const int back = 1 << PST_OP_BACKWARD | 1 << PST_OP_BACKWARD_INPUT;
    for (int s = 0; s < l->stages; s++)
        for (int i = 1; i < l->microbatches; i++)
            if (i % l->slices != 0 &&
                (place_of(l, 1 << PST_OP_FORWARD, s, i - 1) >
                     place_of(l, 1 << PST_OP_FORWARD, s, i) ||
                 place_of(l, back, s, i - 1) < place_of(l, back, s, i)))
                return 0;
    return 1;
}

static int is_valid(const rows *l)
{
    const tally t = count_all(l);
    return counts_are_right(l, &t) && moves_are_right(l, &t) &&
           steps_are_right(l, &t) && all_end(l) && slices_are_in_order(l);
}

/* ---- lists and changes --------------------------------------------------------- */

static const struct {
    const char *name;
    int ranks, microbatches, chunks, slices; /* 0 slices: whole sequences      */
} seeds[] = {
    {"gpipe", 3, 4, 1, 0},       {"1f1b", 4, 5, 1, 0},
    {"zb-h1", 3, 5, 1, 0},       {"zb-h2", 4, 6, 1, 0},
    {"interleaved", 2, 4, 2, 0}, {"interleaved-zb", 2, 3, 3, 0},
    {"zb-v", 3, 5, 2, 0},        {"looped-bfs", 4, 3, 2, 0},
    {"gis", 2, 5, 2, 0},         {"forward-only", 2, 4, 2, 0},
    {"1f1b", 1, 3, 1, 0},        {"hanayo", 2, 3, 4, 0},
    {"seq1f1b", 3, 3, 1, 2},     {"seq1f1b", 2, 2, 1, 3},
    {"seq1f1b", 1, 2, 1, 2},     {"bpipe", 4, 6, 1, 0},
    {"pipedream", 3, 4, 1, 0},   {"pipedream-2bw", 2, 6, 1, 0},
};

static rows make_rows(int seed)
{
    const pst_shape shape = {.ranks = seeds[seed].ranks,
                             .microbatches = seeds[seed].microbatches,
                             .chunks = seeds[seed].chunks,
                             .slices = seeds[seed].slices};
    const int slices = shape.slices > 0 ? shape.slices : 1;
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    rows l = {.ranks = shape.ranks,
              .stages = shape.ranks * shape.chunks,
              .microbatches = shape.microbatches * slices,
              .slices = slices};
    pst_schedule_create(NULL, seeds[seed].name, &shape, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    l.policy = pst_schedule_weight_policy(schedule);
    for (int r = 0; r < l.ranks; r++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, r, &count);
        ck_assert_uint_lt(count, CELLS - 4);
        memcpy(l.cell[r], row, count * sizeof *row);
        l.count[r] = (int)count;
    }
    pst_schedule_destroy(schedule);
    return l;
}

static pst_action take_out(rows *l, int r, int i)
{
    const pst_action a = l->cell[r][i];
    memmove(&l->cell[r][i], &l->cell[r][i + 1],
            (size_t)(--l->count[r] - i) * sizeof *l->cell[r]);
    return a;
}

static void put_in(rows *l, int r, int i, pst_action a)
{
    memmove(&l->cell[r][i + 1], &l->cell[r][i],
            (size_t)(l->count[r]++ - i) * sizeof *l->cell[r]);
    l->cell[r][i] = a;
}

static void move(rows *l, int from, int i, int to)
{
    const pst_action a = take_out(l, from, i);
    put_in(l, to, below(l->count[to] + 1), a);
}

/* Drop, duplicate, move within a row or to another, swap neighbours, or rename. */
static void change(rows *l)
{
    static const pst_op ops[] = {PST_OP_FORWARD,
                                 PST_OP_BACKWARD,
                                 PST_OP_BACKWARD_INPUT,
                                 PST_OP_BACKWARD_WEIGHT,
                                 PST_OP_EVICT,
                                 PST_OP_LOAD,
                                 PST_OP_STEP};
    const int r = below(l->ranks), other = below(l->ranks);
    if (l->count[r] < 2)
        return;
    const int i = below(l->count[r]), kind = below(8);
    pst_action *a = &l->cell[r][i];
    if (kind == 0)
        take_out(l, r, i);
    else if (kind == 1)
        put_in(l, other, below(l->count[other] + 1), *a);
    else if (kind == 2 || kind == 3)
        move(l, r, i, r);
    else if (kind == 4)
        move(l, r, i, other);
    else if (kind == 5 && i + 1 < l->count[r])
        put_in(l, r, i + 1, take_out(l, r, i));
    else if (kind == 6)
        a->op = (uint8_t)ops[below(sizeof ops / sizeof *ops)];
    else if (kind == 7)
        a->microbatch = (uint32_t)below(l->microbatches);
}

static pst_schedule *build(const rows *l)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule_builder *builder;
    pst_schedule *schedule = NULL;
    pst_schedule_builder_create(NULL, l->ranks, l->stages, l->microbatches, &builder,
                                &err);
    pst_schedule_builder_set_weight_policy(builder, l->policy);
    pst_schedule_builder_set_slices(builder, l->slices, &err);
    for (int r = 0; r < l->ranks; r++)
        for (int i = 0; i < l->count[r]; i++)
            pst_schedule_builder_append(builder, r, l->cell[r][i], &err);
    pst_schedule_builder_finish(builder, "mutant", NULL, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

START_TEST(verdicts_agree)
{
    const char *wanted = getenv("PST_TEST_CASES");
    const int cases = wanted != NULL ? atoi(wanted) : 20000;
    int valid = 0;
    for (int k = 0; k < cases; k++) {
        rows l = make_rows(below((int)(sizeof seeds / sizeof *seeds)));
        for (int changes = 1 + below(3); changes > 0; changes--)
            change(&l);
        pst_error err = PST_ERROR_INIT;
        pst_schedule *schedule = build(&l);
        const int ours = pst_schedule_check(NULL, schedule, &err) == PST_OK;
        ck_assert_msg(ours == is_valid(&l), "case %d: check says '%s', and it is %s", k,
                      err.text, ours ? "not valid" : "valid");
        ck_assert(ours || err.text[0] != 0);
        valid += ours;
        pst_schedule_destroy(schedule);
    }
    /* Enough of both, or the test shows nothing. */
    ck_assert_int_gt(valid, cases / 50);
    ck_assert_int_lt(valid, cases / 2);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("mutations");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 240);
    tcase_add_test(all, verdicts_agree);
    suite_add_tcase(suite, all);
    return suite;
}
