/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.h - several cores for one rank: what a stage's callback does with them.
 *
 * A rank whose pipeline was made with pst_pipeline_options.team = k has a thread on
 * each of k cores near each other. The first runs the callbacks; within one, it may
 * cut work into parts that its team runs at once:
 *
 *     static void add_rows(void *user, int part, int member) { ... }
 *     pst_team_run(work->team, 8, add_rows, &rows);
 *
 * For results that do not depend on the team, cut by the shape of the work alone, never
 * by pst_team_size(), and let each part write what no other touches.
 */
#ifndef PENSTOCK_TEAM_H
#define PENSTOCK_TEAM_H

#include <penstock/api.h>

PST_BEGIN_DECLS

typedef struct pst_team pst_team;

/* Runs part number `part`, on the core of `member`, 0 .. size - 1; 0 is the caller of
 * pst_team_run(). Parts of one member come one after the other, so that scratch of its
 * own is enough for each member. */
typedef void (*pst_team_part)(void *user, int part, int member);

/* Cores, the caller's own among them. NULL: 1. */
PST_API int pst_team_size(const pst_team *team);

/*
 * Run parts 0 .. parts - 1 once each and return when all are done. Member i of s takes
 * parts floor(parts i / s) up to floor(parts (i + 1) / s), so that the same part of
 * equal work comes to the same cache again. What the caller wrote before is seen by
 * every part, and what parts wrote is seen afterwards. NULL: the caller runs them all.
 * Threads: from the callback that was given the team only, and not from a part.
 */
PST_API void pst_team_run(pst_team *team, int parts, pst_team_part part, void *user);

PST_END_DECLS

#endif
