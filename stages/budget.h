/* SPDX-License-Identifier: BSD-3-Clause */
/* budget.h - how many CPUs a process may keep busy: affinity and cgroup quota. */
#ifndef PENSTOCK_STAGES_BUDGET_H
#define PENSTOCK_STAGES_BUDGET_H

/*
 * The smaller of `allowed` CPUs and the quota of the process's cgroup and those above
 * it (version 1 or 2), rounded down, at least 1. Files are looked up below `root`,
 * which is "" outside tests.
 */
int pst__cpu_budget_at(const char *root, int allowed);

#endif
