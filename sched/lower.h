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

/* The list without any cell that does not compute: the reverse of lowering. */
PST_API pst_status pst_schedule_compute_only(const pst_env *env,
                                             const pst_schedule *schedule,
                                             pst_schedule **out, pst_error *err);

PST_END_DECLS

#endif
