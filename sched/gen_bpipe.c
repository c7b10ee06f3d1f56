/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gen_bpipe.c - BPipe: 1F1B whose early ranks leave surplus activations with late ones.
 *
 * Source: Kim et al. 2023, "BPipe: Memory-Balanced Pipeline Parallelism for Training
 * Large Language Models".
 *
 * Rule: the rows of 1F1B, and k = ceil((p+2)/2), the most that a rank holds, what its
 * partner p-1-r left with it counted. A forward behind which the next one would not
 * fit evicts what it saved, since of all that is needed last. What the next backward
 * needs is loaded one action ahead. p = 4, m = 5, rank 0 (k = 3):
 *
 *     0F0 0F1 0F2 0EVICT2 0F3 0B0 0F4 0B1 0LOAD2 0B2 0B3 0B4
 *
 * The authors' program is not public; where in the row it moves what is not known.
 */
#include "sched/generator.h"

static const char *const aliases[] = {"b-pipe", NULL};

static int most_held(int ranks)
{
    return (ranks + 3) / 2;
}

/* The row of a rank as it grows. */
typedef struct balance {
    pst_row *row;
    char *away; /* [m] this one was evicted and is not back                    */
    int m;
    int held;
    int most;
} balance;

static int is_away(const balance *b, int microbatch)
{
    return microbatch < b->m && b->away[microbatch];
}

static void load(balance *b, int microbatch)
{
    if (!is_away(b, microbatch))
        return;
    pst__row_add(b->row, PST_OP_LOAD, b->row->rank, microbatch);
    b->away[microbatch] = 0;
    b->held++;
}

/* `ahead`: what will be held, beside what is now, when the next forward runs. */
static void forward(balance *b, int microbatch, int ahead)
{
    if (microbatch >= b->m)
        return;
    pst__row_add(b->row, PST_OP_FORWARD, b->row->rank, microbatch);
    b->held++;
    if (microbatch + 1 == b->m || b->held + ahead <= b->most)
        return;
    pst__row_add(b->row, PST_OP_EVICT, b->row->rank, microbatch);
    b->away[microbatch] = 1;
    b->held--;
}

static void backward(balance *b, int microbatch)
{
    if (b->held < b->most)
        load(b, microbatch + 1);
    pst__row_add(b->row, PST_OP_BACKWARD, b->row->rank, microbatch);
    b->held--;
    load(b, microbatch + 1);
}

static void fill(pst_row *row, const pst_shape *shape)
{
    const int p = shape->ranks, m = shape->microbatches;
    const int warm_up = pst__min(p - 1 - row->rank, m);
    const pst_env *env = pst__schedule_builder_env(row->builder);
    balance b = {.row = row, .m = m, .most = most_held(p)};
    b.away = pst_allocate(env, (size_t)m);
    if (b.away == NULL) {
        row->status = pst_error_no_memory(row->err, "a schedule", (size_t)m);
        return;
    }
    for (int i = 0; i < warm_up; i++)
        forward(&b, i, 1);
    for (int i = 0; i < m; i++) {
        /* One backward, perhaps a load, and then the next forward. */
        forward(&b, i + warm_up, is_away(&b, i + 1));
        backward(&b, i);
    }
    pst_release(env, b.away);
}

const pst_generator pst__bpipe = {
    .kind = {.name = "bpipe",
             .aliases = aliases,
             .summary = "1F1B; early ranks leave surplus activations with late ones",
             .source = "Kim et al. 2023 (BPipe)",
             .needs = "any p and m; one stage a rank",
             .costs = "idle (p-1)(F+I+W); no rank holds more than ceil((p+2)/2)"},
    .fill = fill,
};
