/* SPDX-License-Identifier: BSD-3-Clause */
/* team.c - handing parts of a callback's work to the cores of its rank. */
#include <stdio.h>

#include "stages/team_members.h"

int pst_team_size(const pst_team *team)
{
    return team ? team->size : 1;
}

static void run_share(const pst_team_job *job, int member, int size)
{
    const long long parts = job->parts;
    const int end = (int)(parts * (member + 1) / size);
    for (int part = (int)(parts * member / size); part < end; part++)
        job->part(job->user, part, member);
}

/* ---- the members ---------------------------------------------------------------- */

/* Until `start` is no longer `begun`. */
static void wait_for_job(pst_team *team, uint32_t begun)
{
    if (pst__look_for_change(&team->start, begun, team->spin_ns))
        return;
    /* T3 */
    atomic_fetch_add_explicit(&team->sleepers, 1, memory_order_seq_cst);
    /* T4; it is an acquire too, after which `job` is read. */
    while (atomic_load_explicit(&team->start, memory_order_seq_cst) == begun)
        pst__futex_wait(&team->start, begun, 0);
    /* relaxed: a caller that still counts this one only wakes in vain. */
    atomic_fetch_sub_explicit(&team->sleepers, 1, memory_order_relaxed);
}

static void finish(pst_team *team)
{
    const uint32_t others = (uint32_t)team->size - 1;
    /* T7; it is a release too, and pairs with the acquire in wait_for_members(). */
    const uint32_t before =
        atomic_fetch_add_explicit(&team->finished, 1, memory_order_seq_cst);
    /* T8 */
    if (before + 1 == others &&
        atomic_load_explicit(&team->caller_waits, memory_order_seq_cst))
        pst__futex_wake(&team->finished, false);
}

static void *member_main(void *argument)
{
    pst_team_member *member = argument;
    pst_team *team = member->team;
    uint32_t begun = 0; /* jobs are numbered from 1 */
    member->thread_id = pst__thread_id();
    team->settle(team->user, member);
    for (;;) {
        finish(team);
        wait_for_job(team, begun++);
        if (team->quit)
            return NULL;
        run_share(&team->job, member->number, team->size);
    }
}

/* ---- the caller ----------------------------------------------------------------- */

static void begin(pst_team *team)
{
    /* relaxed: the next line publishes it. */
    atomic_store_explicit(&team->finished, 0, memory_order_relaxed);
    /* T1; it is a release too, of `job`. */
    atomic_fetch_add_explicit(&team->start, 1, memory_order_seq_cst);
    /* T2 */
    if (atomic_load_explicit(&team->sleepers, memory_order_seq_cst))
        pst__futex_wake(&team->start, true);
}

/* acquire: pairs with finish() of each member. */
static bool all_finished(pst_team *team)
{
    return atomic_load_explicit(&team->finished, memory_order_acquire) ==
           (uint32_t)team->size - 1;
}

static void wait_for_members(pst_team *team)
{
    const uint32_t others = (uint32_t)team->size - 1;
    const uint64_t start = team->spin_ns ? pst__now_ns() : 0;
    for (unsigned looks = 1; team->spin_ns; looks++) {
        if (all_finished(team))
            return;
        pst__pause();
        if (looks % 64 == 0 && pst__now_ns() - start > team->spin_ns)
            break;
    }
    /* T5 */
    atomic_store_explicit(&team->caller_waits, 1, memory_order_seq_cst);
    /* T6 */
    for (;;) {
        const uint32_t finished =
            atomic_load_explicit(&team->finished, memory_order_seq_cst);
        if (finished == others)
            break;
        pst__futex_wait(&team->finished, finished, 0);
    }
    /* relaxed: a member that still reads 1 only wakes in vain. */
    atomic_store_explicit(&team->caller_waits, 0, memory_order_relaxed);
}

void pst_team_run(pst_team *team, int parts, pst_team_part part, void *user)
{
    const pst_team_job job = {part, user, parts};
    if (!team || parts < 2) {
        run_share(&job, 0, 1);
        return;
    }
    team->job = job;
    begin(team);
    run_share(&job, 0, team->size);
    wait_for_members(team);
}

/* ---- making and ending ------------------------------------------------------------
 */

static pst_status start_members(pst_team *team, const char *name, pst_error *err)
{
    for (int i = 0; i < team->size - 1; i++) {
        pst_team_member *member = &team->members[i];
        member->team = team;
        member->number = i + 1;
        char own[16];
        snprintf(own, sizeof own, "%.10s.%d", name, member->number % 1000);
        const pst_status status =
            pst__thread_start(&member->thread, member_main, member, own, err);
        if (status != PST_OK)
            return status;
        member->started = true;
    }
    wait_for_members(team);
    return PST_OK;
}

pst_status pst__team_create(const pst_env *env, int size, uint64_t spin_ns,
                            const char *name,
                            void (*settle)(void *user, pst_team_member *member),
                            void *user, pst_team **out, pst_error *err)
{
    pst_team *team = pst_allocate(env, sizeof *team);
    if (!team)
        return pst_error_no_memory(err, "a team of threads", sizeof *team);
    const size_t others = (size_t)size - 1;
    team->size = size;
    team->spin_ns = spin_ns;
    team->settle = settle;
    team->user = user;
    team->members = pst_allocate_array(env, others, sizeof *team->members);
    const pst_status status = team->members
                                  ? start_members(team, name, err)
                                  : pst_error_no_memory(err, "a team of threads",
                                                        others * sizeof *team->members);
    if (status == PST_OK)
        *out = team;
    else
        pst__team_destroy(team, env);
    return status;
}

void pst__team_stop(pst_team *team)
{
    if (!team || team->quit)
        return;
    team->quit = true;
    begin(team);
    for (int i = 0; team->members && i < team->size - 1; i++)
        if (team->members[i].started)
            pst__thread_join(&team->members[i].thread);
}

void pst__team_destroy(pst_team *team, const pst_env *env)
{
    if (!team)
        return;
    pst__team_stop(team);
    pst_release(env, team->members);
    pst_release(env, team);
}
