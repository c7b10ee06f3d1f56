/* SPDX-License-Identifier: BSD-3-Clause */
/* lower_in_time.h - the naive lowering, to show what it would do. */
#ifndef PST_SCHED_LOWER_IN_TIME_H
#define PST_SCHED_LOWER_IN_TIME_H

#include <penstock/lower.h>

/*
 * Each receive just before its user and each send just after its maker. With sends that
 * wait, nearly every schedule but GPipe deadlocks this way. Pairs come apart.
 */
pst_status pst__lower_in_time(const pst_env *env, const pst_schedule *schedule,
                              pst_schedule **out, pst_error *err);

#endif
