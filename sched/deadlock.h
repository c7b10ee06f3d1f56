/* SPDX-License-Identifier: BSD-3-Clause */
/* deadlock.h - can all ranks reach their ends, each in its own order? */
#ifndef PST_SCHED_DEADLOCK_H
#define PST_SCHED_DEADLOCK_H

#include <limits.h>

#include <penstock/schedule.h>

/*
 * How many messages from one rank to one other (a channel) can be sent and not yet
 * received. A send ends where there is room, or when its receiver waits for just this
 * message: with a capacity of 0, only then.
 */
enum { PST__SENDS_RENDEZVOUS = 0, PST__SENDS_BUFFERED = INT_MAX /* end at once */ };

/*
 * Walk all rows without times. The list must have each action once and each stage on
 * one rank (check.c). SEND and RECV cells count where there are any; with buffered
 * sends a list may do without, an action then waits for what it uses.
 * Errors: PST_EDEADLOCK, the text being the cycle; PST_ENOMEM.
 */
pst_status pst__deadlock_check(const pst_env *env, const pst_schedule *schedule,
                               int capacity, pst_error *err);

/*
 * The least capacity of all channels with which that finds no deadlock, into *capacity.
 * Errors: as above, where no capacity is enough.
 */
pst_status pst__deadlock_least_capacity(const pst_env *env,
                                        const pst_schedule *schedule, int *capacity,
                                        pst_error *err);

/*
 * Call visit for every computing action in an order that respects all inputs and all
 * rows: round by round, one action or pair of each rank that can go on, rank 0 first.
 * Errors: as above, and visit's.
 */
typedef pst_status (*pst_visit)(void *user, int rank, pst_action action,
                                pst_error *err);
pst_status pst__topological_order(const pst_env *env, const pst_schedule *schedule,
                                  pst_visit visit, void *user, pst_error *err);

#endif
