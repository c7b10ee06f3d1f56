/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - is an action list one that can be run?
 *
 * Valid means: each stage stands on one rank; for each stage and microbatch there
 * is one F and either one B or one I and one W (none of them at all in a list
 * without any backward action); on its rank B or I comes after F and W after I; what
 * was EVICTed between F and the backward was LOADed again; a STEP comes behind all
 * backwards of its batch, and before any W or B of the next, on every stage after the
 * same microbatches; where sequences are cut into slices, each stage runs F of a
 * microbatch's slices in their order, and B or I from the last slice to the first, and
 * there is no STEP; sends and receives, where the list has them, match; and the ranks,
 * each in its own order, can all reach their ends when sends do not wait for their
 * receivers.
 * Messages name the file where there is one, the rank and the cell.
 */
#ifndef PENSTOCK_CHECK_H
#define PENSTOCK_CHECK_H

#include <penstock/schedule.h>

PST_BEGIN_DECLS

/*
 * Errors: PST_ESCHEDULE  not valid; the first fault in row order
 *         PST_EDEADLOCK  the ranks wait for each other; the text is the cycle:
 *                        "rank 0 waits in 0B0 for 1B0 of rank 1, which waits ..."
 *         PST_ENOMEM
 */
PST_API pst_status pst_schedule_check(const pst_env *env, const pst_schedule *schedule,
                                      pst_error *err);

/*
 * Does no rank ever hold more than `limit` stage-microbatches (1 from F to B or W, and
 * the most that its partner ever evicts to it, as the simulator counts)? The list must
 * be valid. Errors: PST_ESCHEDULE at the first cell that goes beyond it.
 */
PST_API pst_status pst_schedule_check_memory(const pst_schedule *schedule, int limit,
                                             pst_error *err);

/*
 * Can the list be run where a send waits for its receiver (a rendezvous)?
 * A list without SEND and RECV cells is taken to receive just before use and to
 * send just after making; one with them is taken as it stands.
 * The list must be valid. Errors: PST_EDEADLOCK with the cycle, PST_ENOMEM.
 */
PST_API pst_status pst_schedule_check_rendezvous(const pst_env *env,
                                                 const pst_schedule *schedule,
                                                 pst_error *err);

/*
 * Can it be run, with messages placed in that way, where each channel holds `capacity`
 * messages? A channel is all that one rank sends to one other. A send ends where there
 * is room, or when its receiver waits for just this message; so 0 is a rendezvous, and
 * what some capacity is enough for, a larger one is too.
 * Errors: as above; the text ends in the least capacity that is enough.
 */
PST_API pst_status pst_schedule_check_capacity(const pst_env *env,
                                               const pst_schedule *schedule,
                                               int capacity, pst_error *err);

/*
 * That least capacity, into *capacity. The list must be valid: then there is one, at
 * most the messages of the channel that has the most. Errors: PST_ENOMEM.
 */
PST_API pst_status pst_schedule_least_capacity(const pst_env *env,
                                               const pst_schedule *schedule,
                                               int *capacity, pst_error *err);

PST_END_DECLS

#endif
