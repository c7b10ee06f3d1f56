/* SPDX-License-Identifier: BSD-3-Clause */
/* crew.c - starting threads, beginning a job, waiting for its end. */
#include "stages/crew.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stages/settle.h"

static void finish(pst_crew *crew)
{
    /* release: pairs with the acquire in all_finished(), after which the caller reads
     * what this member wrote. The acquire is spare (tests/stages/test_explore.c), as in
     * finish_phase() of worker.c. */
    const uint32_t before =
        atomic_fetch_add_explicit(&crew->finished, 1, memory_order_acq_rel);
    if (before + 1 == (uint32_t)crew->size)
        pst__futex_wake(&crew->finished, true);
}

static void take_place(pst_crew_member *member)
{
    const pst_topology *topology = member->crew->topology;
    pst_worker_info *info = &member->info;
    pst__settle_describe(topology, member->number, info);
    info->thread_id = pst__thread_id();
    if (topology) {
        info->bound = pst__topology_bind(topology, member->number, 0);
        member->bind_error = info->bound ? 0 : errno;
    }
    pst__thread_cpus(info->cpus, sizeof info->cpus);
}

/* One line for all. */
static void warn_of_places(const pst_crew *crew)
{
    const pst_crew_member *first = NULL;
    int count = 0;
    for (int i = crew->size; i-- > 0;)
        if (crew->members[i].bind_error) {
            first = &crew->members[i];
            count++;
        }
    if (first)
        pst_log(crew->env, PST_LOG_WARNING,
                "%d of %d workers could not be bound (worker %d to CPU %s: %s) and run "
                "where the system puts them",
                count, crew->size, first->number, first->info.place,
                strerror(first->bind_error));
}

static void *member_main(void *argument)
{
    pst_crew_member *member = argument;
    pst_crew *crew = member->crew;
    uint32_t begun = 0; /* jobs are numbered from 1 */
    take_place(member);
    for (;;) {
        finish(crew);
        pst__wait_change(&crew->start, begun++, crew->spin_ns);
        /* relaxed: the change of `start` published it. */
        if (atomic_load_explicit(&crew->quit, memory_order_relaxed))
            return NULL;
        crew->work(crew->user, member->number);
    }
}

static bool all_finished(pst_crew *crew, uint32_t *finished)
{
    /* acquire: pairs with finish() of each member. */
    *finished = atomic_load_explicit(&crew->finished, memory_order_acquire);
    return *finished == (uint32_t)crew->size;
}

pst_status pst__crew_start(pst_crew *crew, pst_error *err)
{
    const size_t size = (size_t)crew->size;
    crew->members = pst_allocate_array(crew->env, size, sizeof *crew->members);
    if (!crew->members)
        return pst_error_no_memory(err, "worker threads", size * sizeof *crew->members);
    for (int i = 0; i < crew->size; i++) {
        pst_crew_member *member = &crew->members[i];
        member->crew = crew;
        member->number = i;
        char name[16];
        snprintf(name, sizeof name, "%s-%d", crew->name, i);
        const pst_status status =
            pst__thread_start(&member->thread, member_main, member, name, err);
        if (status != PST_OK)
            return status;
        member->started = true;
    }
    pst__crew_wait(crew, 0, NULL);
    warn_of_places(crew);
    return PST_OK;
}

void pst__crew_begin(pst_crew *crew)
{
    /* relaxed: the next line publishes it. */
    atomic_store_explicit(&crew->finished, 0, memory_order_relaxed);
    /* release: pairs with the acquire in pst__wait_change(), after which members read
     * what was set up for them. */
    atomic_fetch_add_explicit(&crew->start, 1, memory_order_release);
    pst__futex_wake(&crew->start, true);
}

bool pst__crew_wait(pst_crew *crew, uint64_t limit_ns, uint64_t (*movement)(void *user))
{
    uint32_t finished;
    uint64_t last = limit_ns ? movement(crew->user) : 0;
    uint64_t moved_at = pst__now_ns();
    while (!all_finished(crew, &finished)) {
        pst__futex_wait(&crew->finished, finished, limit_ns ? limit_ns / 4 + 1 : 0);
        if (!limit_ns)
            continue;
        const uint64_t now = pst__now_ns();
        const uint64_t present = movement(crew->user);
        if (present != last) {
            last = present;
            moved_at = now;
        } else if (now - moved_at >= limit_ns) {
            return all_finished(crew, &finished);
        }
    }
    return true;
}

bool pst__crew_gather(pst_crew *crew, uint64_t grace_ns)
{
    const uint64_t start = pst__now_ns();
    uint32_t finished;
    while (!all_finished(crew, &finished)) {
        const uint64_t waited = pst__now_ns() - start;
        if (waited >= grace_ns) {
            crew->broken = true;
            return false;
        }
        pst__futex_wait(&crew->finished, finished, grace_ns - waited);
    }
    return true;
}

bool pst__crew_stop(pst_crew *crew)
{
    /* relaxed: the next line publishes it. */
    atomic_store_explicit(&crew->quit, 1, memory_order_relaxed);
    /* release: as in pst__crew_begin(). */
    atomic_fetch_add_explicit(&crew->start, 1, memory_order_release);
    pst__futex_wake(&crew->start, true);
    for (int i = 0; crew->members && i < crew->size; i++) {
        if (!crew->members[i].started)
            continue;
        if (crew->broken)
            pst__thread_detach(&crew->members[i].thread);
        else
            pst__thread_join(&crew->members[i].thread);
    }
    if (crew->broken)
        return false;
    pst_release(crew->env, crew->members);
    crew->members = NULL;
    return true;
}
