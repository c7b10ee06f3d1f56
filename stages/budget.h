/* SPDX-License-Identifier: BSD-3-Clause */
/* budget.h - how many CPUs a process may keep busy: affinity and cgroup quota. */
#ifndef PENSTOCK_STAGES_BUDGET_H
#define PENSTOCK_STAGES_BUDGET_H

#include <penstock/pipeline.h>

/*
 * The smaller of `allowed` CPUs (0: unknown) and the quotas of the process's cgroup and
 * of all above it (version 1 or 2), rounded down, at least 1. Files are looked up below
 * `root`, which is "" outside tests.
 */
void pst__cpu_budget_at(const char *root, int allowed, pst_cpu_budget_info *info);

#endif
