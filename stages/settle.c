/* SPDX-License-Identifier: BSD-3-Clause */
/* settle.c - taking a place, and what to say where it was refused. */
#include "stages/settle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void pst__settle_describe(const pst_topology *topology, int rank, pst_worker_info *info)
{
    info->numa_node = -1;
    info->core = -1;
    if (!topology)
        return;
    info->planned = !pst__topology_is_here(topology);
    info->numa_node = pst__topology_numa_node(topology, rank);
    info->core = pst__topology_core(topology, rank);
    pst__topology_cpus(topology, rank, info->place, sizeof info->place);
}

void pst__worker_settle(pst_worker *w)
{
    const pst_pipeline *p = w->pipeline;
    pst__settle_describe(p->topology, w->place, &w->info);
    w->info.thread_id = pst__thread_id();
    w->info.team = pst_team_size(w->team);
    if (p->topology) {
        w->info.bound = pst__topology_bind(p->topology, w->place, 0);
        w->bind_error = w->info.bound ? 0 : errno;
    }
    pst__thread_cpus(w->info.cpus, sizeof w->info.cpus);
    pst__arena_touch(&w->resident, p->topology, w->place);
    if (p->options.worker_start)
        p->options.worker_start(p->options.worker_start_user, w->rank);
}

void pst__member_settle(void *worker, pst_team_member *member)
{
    const pst_worker *w = worker;
    const pst_pipeline *p = w->pipeline;
    if (p->topology && !pst__topology_bind(p->topology, w->place, member->number))
        member->bind_error = errno;
    if (p->options.worker_start)
        p->options.worker_start(p->options.worker_start_user, w->rank);
}

/* ---- the warning -------------------------------------------------------------- */

typedef struct warning {
    char text[768];
    size_t length;
} warning;

static void add(warning *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(warning *w, const char *format, ...)
{
    va_list args;
    if (w->length > 0 && w->length + 2 < sizeof w->text)
        w->length += (size_t)snprintf(w->text + w->length, 3, "; ");
    va_start(args, format);
    const int length =
        vsnprintf(w->text + w->length, sizeof w->text - w->length, format, args);
    va_end(args);
    if (length > 0)
        w->length += (size_t)length;
    if (w->length >= sizeof w->text)
        w->length = sizeof w->text - 1;
}

/* The errno of the first refusal in a worker's team, and how many there are. */
static int refusals(const pst_worker *w, int *count)
{
    int first = w->bind_error;
    *count += first != 0;
    for (int i = 0; i < pst_team_size(w->team) - 1; i++) {
        const int error = w->team->members[i].bind_error;
        *count += error != 0;
        if (!first)
            first = error;
    }
    return first;
}

static void add_threads(warning *warning, const pst_pipeline *p)
{
    const pst_worker *first = NULL;
    int count = 0, all = 0, error = 0;
    for (int rank = p->ranks; rank-- > 0;) {
        const int own = refusals(&p->workers[rank], &count);
        all += p->workers[rank].started ? pst_team_size(p->workers[rank].team) : 0;
        if (own) {
            first = &p->workers[rank];
            error = own;
        }
    }
    if (first)
        add(warning,
            "%d of %d workers could not be bound (rank %d to CPU %s: %s) and run where "
            "the system puts them",
            count, all, first->rank, first->info.place, strerror(error));
}

/* The arenas of a rank that have one of their faults in common. */
typedef struct fault {
    const pst_arena *arena; /* the first                                       */
    int rank;
    int count; /* of ranks                                                     */
} fault;

typedef enum fault_kind { UNBOUND, ELSEWHERE, NOT_HUGE } fault_kind;

static bool has_fault(const pst_arena *arena, fault_kind kind)
{
    switch (kind) {
    case UNBOUND:
        return arena->bind_error != 0;
    case ELSEWHERE:
        return arena->elsewhere && arena->bound;
    case NOT_HUGE:
        return arena->huge_error != 0;
    }
    return false;
}

static fault find_fault(const pst_pipeline *p, fault_kind kind)
{
    fault found = {.count = 0};
    for (int rank = p->ranks; rank-- > 0;) {
        const pst_worker *w = &p->workers[rank];
        const pst_arena *arena = has_fault(&w->resident, kind)  ? &w->resident
                                 : has_fault(&w->working, kind) ? &w->working
                                                                : NULL;
        if (arena)
            found = (fault){arena, rank, found.count + 1};
    }
    return found;
}

static void add_memory(warning *warning, const pst_pipeline *p)
{
    const fault unbound = find_fault(p, UNBOUND);
    if (unbound.count)
        add(warning,
            "memory of %d of %d ranks could not be bound (rank %d to NUMA node %d: %s) "
            "and is where workers touch it first",
            unbound.count, p->workers_here, unbound.rank,
            p->workers[unbound.rank].info.numa_node,
            strerror(unbound.arena->bind_error));
    const fault elsewhere = find_fault(p, ELSEWHERE);
    if (elsewhere.count) {
        add(warning, "NUMA node %d is short of memory: rank %d needs %zu bytes",
            p->workers[elsewhere.rank].info.numa_node, elsewhere.rank,
            elsewhere.arena->bytes);
        if (elsewhere.arena->free_bytes >= 0)
            add(warning, "%lld were free", elsewhere.arena->free_bytes);
        add(warning, "some are on node %s now", elsewhere.arena->nodes);
    }
    const fault small = find_fault(p, NOT_HUGE);
    if (small.count)
        add(warning, "huge pages were refused (%s), so pages are ordinary ones",
            strerror(small.arena->huge_error));
}

void pst__settle_warn(pst_pipeline *p)
{
    warning warning = {.length = 0};
    if (p->warned_of_places)
        return;
    add_threads(&warning, p);
    add_memory(&warning, p);
    if (warning.length == 0)
        return;
    p->warned_of_places = true;
    pst_log(&p->env, PST_LOG_WARNING, "%s", warning.text);
}
