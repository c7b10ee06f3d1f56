/* SPDX-License-Identifier: BSD-3-Clause */
/* lower.h - from compute actions to messages: where the SEND and RECV cells go. */
#ifndef PENSTOCK_LOWER_H
#define PENSTOCK_LOWER_H

#include <penstock/schedule.h>

PST_BEGIN_DECLS

/*
 * The list with SEND and RECV cells, each pair placed at one moment of one global
 * order of the compute actions: a send right after its maker, and the matching
 * receive at the end of what its rank has listed so far. Free of deadlock even
 * where sends wait for receivers, and each rank pair is first in, first out.
 * Source: PyTorch's _add_send_recv.
 * Errors: PST_EDEADLOCK, PST_ESCHEDULE (already has messages), PST_ENOMEM.
 */
PST_API pst_status pst_schedule_lower(const pst_env *env, const pst_schedule *schedule,
                                      pst_schedule **out, pst_error *err);

/* Where messages stand, and under which sends that is free of deadlock. */
typedef enum pst_lowering {
    PST_LOWER_EARLY,   /* as pst_schedule_lower(): under any sends             */
    PST_LOWER_IN_TIME, /* a receive just before its use, a send just after its
                          maker: under sends that are buffered                 */
    PST_LOWER_PARITY   /* as in time, but odd ranks receive before they send, as
                          Megatron-LM's _p2p_ops: under any sends, or refused  */
} pst_lowering;

/*
 * The list with messages in one of these ways, which is checked to hold what is said.
 * Errors: as pst_schedule_lower(); PST_EDEADLOCK with the cycle where parity alone is
 * not enough, as for most lists with several stages a rank.
 */
PST_API pst_status pst_schedule_lower_as(const pst_env *env,
                                         const pst_schedule *schedule, pst_lowering how,
                                         pst_schedule **out, pst_error *err);

/*
 * The tag of a SEND or RECV cell's message, the same on both sides and another for
 * each message of an iteration, since not all rank pairs are first in, first out:
 *     (d S + the stage that uses it) m + microbatch,   d = 0 forward, 1 backward
 * from 0 to 2 S m - 1. -1 for other cells.
 */
PST_API int64_t pst_schedule_tag(const pst_schedule *schedule, pst_action action);

/*
 * Does every tag stay within `bound`, the highest that a transport takes (MPI promises
 * no more than 32,767)? Errors: PST_ESCHEDULE, with the most microbatches that would.
 */
PST_API pst_status pst_schedule_check_tags(const pst_schedule *schedule, int64_t bound,
                                           pst_error *err);

/* The list without messages and FSDP's cells: the reverse of lowering. */
PST_API pst_status pst_schedule_compute_only(const pst_env *env,
                                             const pst_schedule *schedule,
                                             pst_schedule **out, pst_error *err);

PST_END_DECLS

#endif
