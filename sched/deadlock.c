/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deadlock.c - walks all rows at once and names the cycle where that gets stuck.
 *
 * Done flags stand for what an action makes (an activation, a gradient) and for what
 * arrived by a SEND; a rank at an action whose input is missing waits.
 */
#include <stdio.h>
#include <string.h>

#include "sched/deadlock.h"
#include "sched/flight.h"

/* What has happened to the activation of (stage, microbatch), and to its gradient. */
enum {
    MADE_FORWARD = 1,
    MADE_BACKWARD = 2,
    SENT_FORWARD = 4, /* the message is under way or taken                     */
    SENT_BACKWARD = 8
};

typedef struct walk {
    const pst_env *env;
    const pst_schedule *schedule;
    int capacity; /* of each channel                                           */
    int grows;    /* where that is too little, it becomes more                 */
    int ranks, stages;
    size_t microbatches;
    unsigned char *done; /* [stages][m]                                        */
    size_t *next;        /* [ranks] actions done                               */
    unsigned char *seen; /* [ranks] while a cycle is followed                  */
    pst__flight flight;  /* counts where the capacity is bounded               */
} walk;

static pst_status start(walk *w, pst_error *err)
{
    w->ranks = pst_schedule_ranks(w->schedule);
    w->stages = pst_schedule_stages(w->schedule);
    w->microbatches = (size_t)pst_schedule_microbatches(w->schedule);
    w->done = pst_allocate_array(w->env, (size_t)w->stages, w->microbatches);
    w->next = pst_allocate_array(w->env, (size_t)w->ranks, sizeof *w->next);
    w->seen = pst_allocate(w->env, (size_t)w->ranks);
    if (w->done == NULL || w->next == NULL || w->seen == NULL)
        return pst_error_no_memory(
            err, "a check", (size_t)w->stages * (unsigned long long)w->microbatches);
    if (w->capacity < PST__SENDS_BUFFERED)
        return pst__flight_init(&w->flight, w->env, w->schedule, err);
    return PST_OK;
}

static void finish(walk *w)
{
    pst_release(w->env, w->done);
    pst_release(w->env, w->next);
    pst_release(w->env, w->seen);
    pst__flight_fini(&w->flight, w->env);
}

static unsigned char *flags(const walk *w, int stage, uint32_t microbatch)
{
    return &w->done[(size_t)stage * w->microbatches + microbatch];
}

static int is_done(const walk *w, int stage, uint32_t microbatch, int what)
{
    return (*flags(w, stage, microbatch) & what) != 0;
}

static const pst_action *head(const walk *w, int rank)
{
    size_t count;
    const pst_action *row = pst_schedule_row(w->schedule, rank, &count);
    return w->next[rank] < count ? &row[w->next[rank]] : NULL;
}

/* The action that must happen first, or nothing: what a rank waits for. */
typedef struct wait {
    int waiting;
    int rank; /* who is to do it; -1: nobody will                     */
    pst_action action;
} wait;

static wait wait_for(const walk *w, int stage, int op, uint32_t microbatch)
{
    pst_action action = {
        .microbatch = microbatch, .stage = (uint16_t)stage, .op = (uint8_t)op};
    return (wait){1, pst_schedule_rank_of(w->schedule, stage), action};
}

static const wait no_wait = {0, -1, {0, 0, 0, 0}};

/* What a computing action lacks. */
static wait missing_input(const walk *w, pst_action a)
{
    const int stage = a.stage;
    const int previous = pst_schedule_previous_stage(w->schedule, stage);
    const int next = pst_schedule_next_stage(w->schedule, stage);
    const uint32_t i = a.microbatch;
    if (a.op == PST_OP_FORWARD)
        return previous < 0 || is_done(w, previous, i, MADE_FORWARD)
                   ? no_wait
                   : wait_for(w, previous, PST_OP_FORWARD, i);
    if (a.op == PST_OP_BACKWARD_WEIGHT)
        return is_done(w, stage, i, MADE_BACKWARD)
                   ? no_wait
                   : wait_for(w, stage, PST_OP_BACKWARD_INPUT, i);
    if (!is_done(w, stage, i, MADE_FORWARD))
        return wait_for(w, stage, PST_OP_FORWARD, i);
    if (next < 0 || is_done(w, next, i, MADE_BACKWARD))
        return no_wait;
    return wait_for(w, next, PST_OP_BACKWARD, i);
}

static int is_send(pst_action a)
{
    return a.op == PST_OP_SEND_FORWARD || a.op == PST_OP_SEND_BACKWARD;
}

static int is_receive(pst_action a)
{
    return a.op == PST_OP_RECEIVE_FORWARD || a.op == PST_OP_RECEIVE_BACKWARD;
}

static int same_action(pst_action a, pst_action b)
{
    return a.op == b.op && a.stage == b.stage && a.microbatch == b.microbatch;
}

/* Has the message that `receive` wants been sent? */
static int is_sent(const walk *w, pst_action receive)
{
    pst_action send = pst__flight_counterpart(receive);
    return is_done(w, send.stage, send.microbatch,
                   send.op == PST_OP_SEND_FORWARD ? SENT_FORWARD : SENT_BACKWARD);
}

static int has_room(const walk *w, pst_action send)
{
    return w->capacity == PST__SENDS_BUFFERED ||
           pst__flight_count(&w->flight, send) < (size_t)w->capacity;
}

static wait missing(const walk *w, pst_action a)
{
    if (pst_op_describe(a.op)->computes)
        return missing_input(w, a);
    if (is_receive(a) && !is_sent(w, a)) {
        pst_action send = pst__flight_counterpart(a);
        return wait_for(w, send.stage, send.op, send.microbatch);
    }
    if (is_send(a) && !has_room(w, a)) {
        pst_action receive = pst__flight_counterpart(a);
        int rank = pst_schedule_rank_of(w->schedule, receive.stage);
        const pst_action *other = rank >= 0 ? head(w, rank) : NULL;
        if (other == NULL || !same_action(*other, receive))
            return wait_for(w, receive.stage, receive.op, receive.microbatch);
    }
    return no_wait;
}

static void mark(walk *w, pst_action a)
{
    const pst_op_description *op = pst_op_describe(a.op);
    if (!op->has_microbatch)
        return;
    unsigned char *f = flags(w, a.stage, a.microbatch);
    if (op->makes_output)
        *f |= MADE_FORWARD;
    if (op->makes_input_grad)
        *f |= MADE_BACKWARD;
    if (a.op == PST_OP_SEND_FORWARD)
        *f |= SENT_FORWARD;
    if (a.op == PST_OP_SEND_BACKWARD)
        *f |= SENT_BACKWARD;
    pst__flight_mark(&w->flight, a);
}

/* How many actions the head of a row is: a pair begins when both have their inputs. */
static size_t head_length(const walk *w, int rank)
{
    size_t count;
    const pst_action *row = pst_schedule_row(w->schedule, rank, &count);
    return row[w->next[rank]].paired && w->next[rank] + 1 < count ? 2 : 1;
}

/* What the head of a row, which must be there, lacks. */
static wait missing_at_head(const walk *w, int rank)
{
    const pst_action *a = head(w, rank);
    wait missed = missing(w, a[0]);
    return missed.waiting || head_length(w, rank) == 1 ? missed : missing(w, a[1]);
}

/* Let `rank` do its next action, if it can; *moved says whether it did. */
static pst_status advance(walk *w, int rank, int *moved, pst_visit visit, void *user,
                          pst_error *err)
{
    const pst_action *a = head(w, rank);
    if (a == NULL || missing_at_head(w, rank).waiting)
        return PST_OK;
    size_t length = head_length(w, rank);
    for (size_t k = 0; k < length; k++) {
        if (visit != NULL && pst_op_describe(a[k].op)->runs) {
            /* In a list that was not checked the second of a pair may be marked too. */
            pst_action visited = a[k];
            visited.paired = k + 1 < length;
            pst_status status = visit(user, rank, visited, err);
            if (status != PST_OK)
                return status;
        }
        mark(w, a[k]);
    }
    w->next[rank] += length;
    *moved = 1;
    return PST_OK;
}

/* A full channel has room again when any of its messages is received: the first of
 * those receives, or else `own`. */
static pst_action first_to_make_room(const walk *w, int rank, pst_action own)
{
    size_t count;
    const pst_action *row = pst_schedule_row(w->schedule, rank, &count);
    for (size_t i = w->next[rank]; i < count; i++)
        if (is_receive(row[i]) && is_sent(w, row[i]) &&
            pst__flight_same_channel(&w->flight, row[i], own))
            return row[i];
    return own;
}

/* The name of what is waited for: whether its gradient comes from a B or an I is seen
 * in the row. */
static char *wanted_text(const walk *w, wait missed, char *text, size_t size)
{
    pst_action wanted = missed.action;
    size_t count = 0;
    const pst_action *row =
        missed.rank >= 0 ? pst_schedule_row(w->schedule, missed.rank, &count) : NULL;
    if (row != NULL && is_receive(wanted))
        wanted = first_to_make_room(w, missed.rank, wanted);
    for (size_t i = 0; i < count && wanted.op == PST_OP_BACKWARD; i++)
        if (row[i].stage == wanted.stage && row[i].microbatch == wanted.microbatch &&
            row[i].op == PST_OP_BACKWARD_INPUT)
            wanted.op = PST_OP_BACKWARD_INPUT;
    return pst_action_text(wanted, text, size);
}

static size_t append(char *text, size_t size, size_t used, const char *part)
{
    int length = used < size ? snprintf(text + used, size - used, "%s", part) : 0;
    return used + (size_t)(length > 0 ? length : 0);
}

/* From a rank that is on the cycle, once around. */
static pst_status describe_cycle(const walk *w, int first, pst_error *err)
{
    enum { MOST_LINKS = 12 };
    char text[720], part[128], own[32], wanted[32];
    size_t used = 0;
    int rank = first, links = 0;
    do {
        const pst_action *a = head(w, rank);
        wait missed = missing_at_head(w, rank);
        pst_action_text(*a, own, sizeof own);
        wanted_text(w, missed, wanted, sizeof wanted);
        snprintf(part, sizeof part, "%s%s %d waits in %s (cell %zu) for %s of rank %d",
                 links == 0 ? "" : ", ", "rank", rank, own,
                 pst_schedule_cell(w->schedule, rank, w->next[rank]), wanted,
                 missed.rank);
        used = append(text, sizeof text, used, part);
        rank = missed.rank;
        links++;
        if (rank != first &&
            (links == MOST_LINKS ||
             used + sizeof part + sizeof ", and so on" > sizeof text)) {
            append(text, sizeof text, used, ", and so on");
            break;
        }
    } while (rank != first);
    const char *file = pst_schedule_file(w->schedule);
    return pst_error_set_at(err, PST_EDEADLOCK, file, file != NULL ? first + 1 : 0,
                            "deadlock: %s", text);
}

/* Some rank is stuck: follow who waits for whom until a rank comes twice. */
static pst_status explain(walk *w, pst_error *err)
{
    int rank = 0;
    while (head(w, rank) == NULL)
        rank++;
    for (;;) {
        wait missed = missing_at_head(w, rank);
        w->seen[rank] = 1;
        if (missed.rank < 0 || head(w, missed.rank) == NULL) {
            char own[32], wanted[32];
            const char *file = pst_schedule_file(w->schedule);
            pst_action_text(*head(w, rank), own, sizeof own);
            wanted_text(w, missed, wanted, sizeof wanted);
            return pst_error_set_at(
                err, PST_EDEADLOCK, file, file ? rank + 1 : 0,
                "rank %d waits in %s (cell %zu) for %s, which never "
                "happens",
                rank, own, pst_schedule_cell(w->schedule, rank, w->next[rank]), wanted);
        }
        rank = missed.rank;
        if (w->seen[rank])
            return describe_cycle(w, rank, err);
    }
}

/* More room, if any rank waits for that. What ran with less would have run with it. */
static int grow(walk *w)
{
    for (int rank = 0; rank < w->ranks; rank++) {
        const pst_action *a = head(w, rank);
        if (a != NULL && is_send(*a) && missing(w, *a).waiting) {
            w->capacity++;
            return 1;
        }
    }
    return 0;
}

static pst_status walk_all(walk *w, pst_visit visit, void *user, pst_error *err)
{
    pst_status status = start(w, err);
    int moved = 1, left = 1;
    while (status == PST_OK && moved) {
        moved = 0;
        left = 0;
        for (int rank = 0; rank < w->ranks && status == PST_OK; rank++) {
            status = advance(w, rank, &moved, visit, user, err);
            left |= head(w, rank) != NULL;
        }
        if (status == PST_OK && !moved && w->grows)
            moved = grow(w);
    }
    if (status == PST_OK && left)
        status = explain(w, err);
    finish(w);
    return status;
}

pst_status pst__deadlock_check(const pst_env *env, const pst_schedule *schedule,
                               int capacity, pst_error *err)
{
    walk w = {.env = env, .schedule = schedule, .capacity = capacity};
    return walk_all(&w, NULL, NULL, err);
}

pst_status pst__deadlock_least_capacity(const pst_env *env,
                                        const pst_schedule *schedule, int *capacity,
                                        pst_error *err)
{
    walk w = {.env = env, .schedule = schedule, .grows = 1};
    const pst_status status = walk_all(&w, NULL, NULL, err);
    if (status == PST_OK)
        *capacity = w.capacity;
    return status;
}

pst_status pst__topological_order(const pst_env *env, const pst_schedule *schedule,
                                  pst_visit visit, void *user, pst_error *err)
{
    walk w = {.env = env, .schedule = schedule, .capacity = PST__SENDS_BUFFERED};
    return walk_all(&w, visit, user, err);
}
