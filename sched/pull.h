/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.h - a pattern of slots, every pass pulled to where it can first stand.
 *
 * Two chunks a rank, laid out as a V: a forward takes one slot, a whole backward two. A
 * split one takes one for I, and one for W in the next slot that is free. Microbatch i
 * of pass k stands at first[k] + 6 i to begin with.
 */
#ifndef PST_SCHED_PULL_H
#define PST_SCHED_PULL_H

#include <penstock/env.h>
#include <penstock/error.h>

/* The passes of a rank; chunk a is the one that has the first stages. */
enum { PST_FA, PST_FB, PST_IB, PST_IA, PST_PASSES };

/*
 * In order of time, each pass goes to the first free slot behind what it needs and
 * behind the same pass of the microbatch before; a forward only as far as its rank then
 * never holds more than `limit`. slot[p][4][m] gets the slots that come out.
 * Source: the authors' program of Qi et al. 2024 (controllable memory), v1f1b.
 * Errors: PST_ENOMEM.
 */
pst_status pst__pull(const pst_env *env, int ranks, int microbatches, int limit,
                     int whole, const int (*first)[PST_PASSES], int *slot,
                     pst_error *err);

#endif
