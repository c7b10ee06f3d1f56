/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts.c - asking all processes where they are, and what they may use. */
#include "stages/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/transport.h>

#include "stages/thread.h"

/* What each process tells the others. */
typedef struct presence {
    char host[64];
    char cpus[448]; /* as pst__thread_cpus()                                   */
    int ranks;
} presence;

static int count_ranks(const pst_pipeline_options *options, int ranks, int process)
{
    int count = 0;
    for (int rank = 0; rank < ranks; rank++)
        count += options->process_of_rank[rank] == process;
    return count;
}

/* Have two lists of CPUs ("0", "2-3,8") any in common? */
static bool overlap(const char *a, const char *b)
{
    for (const char *x = a; *x;) {
        char *end;
        const long first = strtol(x, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (const char *y = b; *y;) {
            char *rest;
            const long from = strtol(y, &rest, 10);
            const long to = *rest == '-' ? strtol(rest + 1, &rest, 10) : from;
            if (first <= to && from <= last)
                return true;
            y = *rest == ',' ? rest + 1 : "";
        }
        x = *end == ',' ? end + 1 : "";
    }
    return false;
}

static void count_sharers(const presence *all, int processes, int own,
                          pst_share_of_host *share)
{
    for (int other = 0; other < processes; other++) {
        if (strcmp(all[other].host, all[own].host) != 0)
            continue;
        if (strcmp(all[other].cpus, all[own].cpus) == 0) {
            share->sharing++;
            share->places += all[other].ranks;
            if (other < own)
                share->first += all[other].ranks;
        } else if (overlap(all[other].cpus, all[own].cpus)) {
            share->torn = true;
        }
    }
}

pst_status pst__hosts_share(const pst_env *env, const pst_pipeline_options *options,
                            int ranks, pst_share_of_host *share, pst_error *err)
{
    pst_transport *t = options ? options->transport : NULL;
    *share = (pst_share_of_host){.here = ranks, .places = ranks};
    if (!t)
        return PST_OK;
    presence own = {.ranks = count_ranks(options, ranks, t->process)};
    gethostname(own.host, sizeof own.host - 1);
    pst__thread_cpus(own.cpus, sizeof own.cpus);
    presence *all = pst_allocate_array(env, (size_t)t->processes, sizeof *all);
    if (!all)
        return pst_error_no_memory(err, "a list of processes", 0);
    const pst_status status = pst_transport_gather(t, &own, sizeof own, all, err);
    if (status == PST_OK) {
        *share = (pst_share_of_host){.here = own.ranks};
        count_sharers(all, t->processes, t->process, share);
        pst_cpu_budget_info budget;
        pst_cpu_budget_describe(&budget);
        share->narrow = budget.allowed < sysconf(_SC_NPROCESSORS_ONLN);
    }
    pst_release(env, all);
    return status;
}
