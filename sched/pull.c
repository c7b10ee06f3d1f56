/* SPDX-License-Identifier: BSD-3-Clause */
/* pull.c - see pull.h. */
#include "sched/pull.h"

#include <string.h>

enum { PERIOD = 6 };

typedef struct pull {
    int ranks;
    int microbatches;
    int limit;
    int whole;
    size_t length; /* slots                                                    */
    int *slot;     /* [p][4][m]                                                */
    char *taken;   /* [p][length]                                              */
    int *held;     /* [p][length] stage-microbatches after each slot           */
    int *weight;   /* [p][2m] slots of W, ascending                            */
    int *next;     /* [p] of them that are moved                               */
} pull;

static int width(const pull *p, int pass)
{
    return pass > PST_FB && p->whole ? 2 : 1;
}

static int *slot_of(const pull *p, int rank, int pass, int microbatch)
{
    return &p->slot[((size_t)rank * PST_PASSES + (size_t)pass) *
                        (size_t)p->microbatches +
                    (size_t)microbatch];
}

/* The first slot behind a pass. */
static int behind(const pull *p, int rank, int pass, int microbatch)
{
    return *slot_of(p, rank, pass, microbatch) + width(p, pass);
}

/* Where a pass may stand at the earliest: down the V for Fa and Ib, up for Fb and Ia.
 */
static int earliest(const pull *p, int rank, int pass, int microbatch)
{
    int first = microbatch > 0 ? behind(p, rank, pass, microbatch - 1) : 0;
    const int down = pass == PST_FA || pass == PST_IB;
    const int before = down ? rank - 1 : rank + 1;
    int ready = 0;
    if (before >= 0 && before < p->ranks)
        ready = behind(p, before, pass, microbatch);
    else if (pass != PST_FA)
        ready = behind(p, rank, pass - 1, microbatch);
    return ready > first ? ready : first;
}

static void mark(const pull *p, int rank, int pass, int at, int taken)
{
    char *row = p->taken + (size_t)rank * p->length;
    for (int k = 0; k < width(p, pass); k++)
        row[at + k] = (char)taken;
}

static int is_free(const pull *p, int rank, int places, int at)
{
    const char *row = p->taken + (size_t)rank * p->length;
    return !row[at] && (places == 1 || !row[at + 1]);
}

/* One more, or less, is held from slot `from` to `to` - 1. */
static void hold(const pull *p, int rank, int from, int to, int more)
{
    int *held = p->held + (size_t)rank * p->length;
    for (int k = from; k < to; k++)
        held[k] += more;
}

static void move(const pull *p, int rank, int pass, int microbatch)
{
    int *at = slot_of(p, rank, pass, microbatch);
    const int *held = p->held + (size_t)rank * p->length;
    int to = earliest(p, rank, pass, microbatch);
    if (pass <= PST_FB) {
        int room = *at;
        while (room > to && held[room - 1] < p->limit)
            room--;
        to = room;
    }
    mark(p, rank, pass, *at, 0);
    while (to < *at && !is_free(p, rank, width(p, pass), to))
        to++;
    if (to < *at) {
        const int end = width(p, pass) - 1;
        if (pass <= PST_FB || p->whole)
            hold(p, rank, to + end, *at + end, pass <= PST_FB ? 1 : -1);
        *at = to;
    }
    mark(p, rank, pass, *at, 1);
}

static void lay_out(const pull *p, const int (*first)[PST_PASSES])
{
    for (int rank = 0; rank < p->ranks; rank++)
        for (int pass = 0; pass < PST_PASSES; pass++)
            for (int i = 0; i < p->microbatches; i++) {
                const int at = first[rank][pass] + PERIOD * i;
                *slot_of(p, rank, pass, i) = at;
                mark(p, rank, pass, at, 1);
                if (pass <= PST_FB || p->whole)
                    hold(p, rank, at + width(p, pass) - 1, (int)p->length,
                         pass <= PST_FB ? 1 : -1);
            }
}

static int *weight_of(const pull *p, int rank, int number)
{
    return &p->weight[2 * (size_t)rank * (size_t)p->microbatches + (size_t)number];
}

/* Each W into the first slot that is free behind its I. */
static void lay_out_weights(const pull *p, int rank)
{
    char *row = p->taken + (size_t)rank * p->length;
    int waiting = 0, number = 0, next[2] = {0, 0};
    for (int t = 0; number < 2 * p->microbatches; t++) {
        for (int k = 0; k < 2; k++)
            if (next[k] < p->microbatches &&
                *slot_of(p, rank, PST_IB + k, next[k]) == t) {
                next[k]++;
                waiting++;
            }
        if (row[t] || waiting == 0)
            continue;
        *weight_of(p, rank, number++) = t;
        row[t] = 1;
        hold(p, rank, t, (int)p->length, -1);
        waiting--;
    }
}

/* The slot of a rank's `number`-th I by time. */
static int input_slot(const pull *p, int rank, int number)
{
    int next[2] = {0, 0}, slot = 0;
    for (int i = 0; i <= number; i++) {
        const int one = next[0] < p->microbatches ? *slot_of(p, rank, PST_IB, next[0])
                                                  : (int)p->length;
        const int two = next[1] < p->microbatches ? *slot_of(p, rank, PST_IA, next[1])
                                                  : (int)p->length;
        slot = one < two ? one : two;
        next[one < two ? 0 : 1]++;
    }
    return slot;
}

static void move_weight(const pull *p, int rank)
{
    const int number = p->next[rank]++;
    int *at = weight_of(p, rank, number);
    char *row = p->taken + (size_t)rank * p->length;
    int to = input_slot(p, rank, number) + 1;
    if (number > 0 && to <= *weight_of(p, rank, number - 1))
        to = *weight_of(p, rank, number - 1) + 1;
    row[*at] = 0;
    while (to < *at && !is_free(p, rank, 1, to))
        to++;
    if (to < *at) {
        hold(p, rank, to, *at, -1);
        *at = to;
    }
    row[*at] = 1;
}

/* All passes by the time at which they stood at first. */
static void move_all(const pull *p, const int (*first)[PST_PASSES])
{
    for (int t = 0; t < (int)p->length; t++)
        for (int rank = 0; rank < p->ranks; rank++)
            for (int pass = 0; pass < PST_PASSES; pass++) {
                const int since = t - first[rank][pass];
                if (since >= 0 && since % PERIOD == 0 &&
                    since / PERIOD < p->microbatches)
                    move(p, rank, pass, since / PERIOD);
                if (pass + 1 == PST_PASSES && !p->whole &&
                    p->next[rank] < 2 * p->microbatches &&
                    *weight_of(p, rank, p->next[rank]) == t)
                    move_weight(p, rank);
            }
}

pst_status pst__pull(const pst_env *env, int ranks, int microbatches, int limit,
                     int whole, const int (*first)[PST_PASSES], int *slot,
                     pst_error *err)
{
    pull p = {.ranks = ranks,
              .microbatches = microbatches,
              .limit = limit,
              .whole = whole,
              .slot = slot};
    int last = 0;
    for (int rank = 0; rank < ranks; rank++)
        for (int pass = 0; pass < PST_PASSES; pass++)
            last = first[rank][pass] > last ? first[rank][pass] : last;
    const size_t actions = 4 * (size_t)microbatches;
    p.length = (size_t)last + PERIOD * (size_t)microbatches + 2 + (whole ? 0 : actions);
    p.taken = pst_allocate_array(env, (size_t)ranks, p.length);
    p.held = pst_allocate_array(env, (size_t)ranks * p.length, sizeof *p.held);
    p.weight = pst_allocate_array(env, (size_t)ranks * actions / 2, sizeof *p.weight);
    p.next = pst_allocate_array(env, (size_t)ranks, sizeof *p.next);
    const int ok = p.taken && p.held && p.weight && p.next;
    if (ok) {
        lay_out(&p, first);
        for (int rank = 0; rank < ranks && !whole; rank++)
            lay_out_weights(&p, rank);
        move_all(&p, first);
    }
    pst_release(env, p.taken);
    pst_release(env, p.held);
    pst_release(env, p.weight);
    pst_release(env, p.next);
    return ok ? PST_OK
              : pst_error_no_memory(err, "a schedule", p.length * sizeof *p.held);
}
