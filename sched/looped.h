/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * looped.h - what the kinds that loop over chunks share: chunk j of rank r is
 * stage j p + r, and microbatches go in groups.
 *
 * The order of (chunk, microbatch) in a group is chunk after chunk, each over
 * the whole group; groups follow each other and the last may be smaller. p any,
 * v = 2, N = 2, m = 3, as chunk.microbatch: 0.0 0.1 1.0 1.1 | 0.2 1.2.
 */
#ifndef PST_SCHED_LOOPED_H
#define PST_SCHED_LOOPED_H

#include <penstock/registry.h>

/* One entry of the order. */
typedef struct pst_turn {
    int chunk;
    int microbatch;
} pst_turn;

/* Entry k (0 .. m v - 1) of the order with groups of `group`. */
static inline pst_turn pst__looped_turn(const pst_shape *shape, int group, int k)
{
    const int v = shape->chunks, m = shape->microbatches;
    const int first = k / (group * v) * group;
    const int size = m - first < group ? m - first : group;
    const int within = k - first * v;
    return (pst_turn){.chunk = within / size, .microbatch = first + within % size};
}

/* The stage of a turn on `rank`: forward in order, backward from the last
 * chunk. */
static inline int pst__looped_stage(const pst_shape *shape, int rank, pst_turn turn,
                                    int backward)
{
    const int chunk = backward ? shape->chunks - 1 - turn.chunk : turn.chunk;
    return chunk * shape->ranks + rank;
}

/*
 * The group that runs without deadlock for every shape and meets the closed
 * form for m >= p: m where m < p; PyTorch's m div max(1, m div p) where its own
 * rule takes m; else the smallest N >= p with m mod N = 0 or m mod N >= p.
 */
static inline int pst__looped_group(const pst_shape *shape)
{
    const int p = shape->ranks, m = shape->microbatches;
    if (shape->group > 0)
        return shape->group < m ? shape->group : m;
    if (m < p)
        return m;
    const int rounds = m / p;
    if (m % rounds == 0)
        return m / rounds;
    int group = p;
    while (m % group != 0 && m % group < p)
        group++;
    return group;
}

/* Refuse a group that the ranks behind would wait for in vain. */
static inline pst_status pst__looped_refuse(const char *name, const pst_shape *shape,
                                            pst_error *err)
{
    const int p = shape->ranks, m = shape->microbatches, group = shape->group;
    pst_shape own = *shape;
    own.group = 0;
    if (group == 0 || shape->chunks == 1 || group >= m ||
        (group >= p && (m % group == 0 || m % group >= p)))
        return PST_OK;
    return pst_error_set(
        err, PST_EINVAL,
        "%s: groups of %d with p=%d and m=%d would deadlock; a group is at least p and "
        "leaves none or at least p microbatches over: %d works",
        name, group, p, m, pst__looped_group(&own));
}

#endif
