/* SPDX-License-Identifier: BSD-3-Clause */
/* versions.h - which weights each microbatch of an asynchronous list uses. */
#ifndef PST_SCHED_VERSIONS_H
#define PST_SCHED_VERSIONS_H

#include <penstock/schedule.h>

/*
 * version[m] of one stage: 0 is what the weights are before its first STEP, and each
 * STEP makes one more. The list must be valid, or have no STEP.
 */
void pst__versions_assign(const pst_schedule *schedule, int stage, uint32_t *version);

#endif
