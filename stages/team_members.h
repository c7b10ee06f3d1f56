/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team_members.h - the threads behind a team, and how they wait.
 *
 *     caller (member 0)                     members 1 .. size - 1
 *     T1  start += 1                        T3  sleepers += 1
 *     T2  look at sleepers: 0, so no wake   T4  look at start: old, so sleep on it
 *         its own parts                         their parts
 *     T5  caller_waits = 1                  T7  finished += 1
 *     T6  look at finished: sleep on it     T8  the last: look at caller_waits, wake
 *
 * T1 to T4 are seq_cst, so they have one order: if T2 reads 0 then T2 precedes T3,
 * hence T1 precedes T4, which reads the new start. Likewise T5 to T8: if T8 reads 0 it
 * precedes T5, hence T7 precedes T6, which reads that all have finished. The kernel
 * compares the words once more before anyone sleeps on them.
 */
#ifndef PENSTOCK_STAGES_TEAM_MEMBERS_H
#define PENSTOCK_STAGES_TEAM_MEMBERS_H

#include <stdbool.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/team.h>

#include "stages/atomic.h"
#include "stages/thread.h"

typedef struct pst_team_member {
    pst_team *team;
    int number; /* from 1: the caller of pst_team_run() is no thread of the team */
    bool started;
    pst_thread thread;
    int thread_id;  /* the kernel's                                            */
    int bind_error; /* errno of a refused binding, or 0                        */
} pst_team_member;

typedef struct pst_team_job {
    pst_team_part part;
    void *user;
    int parts;
} pst_team_job;

struct pst_team {
    int size;         /* the caller counts                                     */
    uint64_t spin_ns; /* how long one looks before it sleeps                   */
    void (*settle)(void *user, pst_team_member *member); /* first of all, by each */
    void *user;
    pst_team_member *members; /* [size - 1]                                    */
    pst_team_job job;
    bool quit; /* published by `start`                                          */
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 start;
    pst_atomic_u32 caller_waits;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 finished;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 sleepers;
};

/*
 * A team of `size` >= 2 whose threads are named "NAME.1" and so on; returns when they
 * have settled.
 * Owns:   *out, for pst__team_destroy(). Errors: PST_ENOMEM, PST_ESYSTEM; no thread is
 *         left then.
 */
pst_status pst__team_create(const pst_env *env, int size, uint64_t spin_ns,
                            const char *name,
                            void (*settle)(void *user, pst_team_member *member),
                            void *user, pst_team **out, pst_error *err);

/* End and join the threads: by the caller of pst_team_run() when there will be no more
 * jobs. NULL allowed; once is enough. */
void pst__team_stop(pst_team *team);

/* And give the memory back. NULL allowed. */
void pst__team_destroy(pst_team *team, const pst_env *env);

#endif
