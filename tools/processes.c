/* SPDX-License-Identifier: BSD-3-Clause */
/* processes.c - what the processes of a run tell each other before and after it. */
#include "tools/processes.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/blas.h>
#include <penstock/version.h>

#include "tools/binding.h"
#include "tools/say.h"

pst_status processes_join(const pst_env *env, processes *own, pst_error *err)
{
    pst_error found = PST_ERROR_INIT;
    own->transport = launch_open(env, &own->launch, &found);
    own->leads = own->transport == NULL || own->transport->process == 0;
    return found.status == PST_OK ? PST_OK
                                  : pst_error_set(err, found.status, "%s", found.text);
}

/* ---- agreeing ------------------------------------------------------------------- */

static likeness likeness_here(void)
{
    likeness own = {.version = ""};
    pst_blas_info info;
    pst_blas_describe(&info);
    snprintf(own.version, sizeof own.version, "%s", pst_version_string());
    snprintf(own.core, sizeof own.core, "%s", info.core);
    snprintf(own.kernels, sizeof own.kernels, "%s", info.kernels);
    snprintf(own.config, sizeof own.config, "%s", info.config);
    return own;
}

pst_status processes_likeness(const processes *own, likeness *all, pst_error *err)
{
    const likeness here = likeness_here();
    return pst_transport_gather(own->transport, &here, sizeof here, all, err);
}

pst_status processes_found(processes *own, pst_status status, pst_error *err)
{
    pst_transport *t = own->transport;
    if (status == PST_OK || status == PST_EPEER || t == NULL || t->failure(t->self))
        return status;
    own->agreed = 1;
    if (!own->leads)
        err->status = PST_EPEER;
    return err->status;
}

static pst_status refuse_mixture(const pst_transport *t, const likeness *all, int other,
                                 pst_error *err)
{
    const likeness *a = &all[0], *b = &all[other];
    const char *first = t->where(t->self, 0), *second = t->where(t->self, other);
    if (strcmp(a->version, b->version) != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "%s runs Penstock %s and %s %s; the same on all would work, "
            "or --allow-mixed, with other bits than either alone",
            first, a->version, second, b->version);
    if (strcmp(a->core, b->core) != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "%s has OpenBLAS kernels for %s and %s for %s, which round "
            "differently; OPENBLAS_CORETYPE=Haswell on all would work, "
            "or --allow-mixed, with other bits than either alone",
            first, a->core, second, b->core);
    if (strcmp(a->config, b->config) != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "%s has %s and %s %s; the same OpenBLAS on all would work, "
            "or --allow-mixed, with other bits than either alone",
            first, a->config, second, b->config);
    return pst_error_set(
        err, PST_EINVAL,
        "%s has kernels for %s and %s for %s, which round differently; "
        "CPUs of one kind would work, or --allow-mixed, with other bits than either "
        "alone",
        first, a->kernels, second, b->kernels);
}

pst_status processes_compare(processes *own, int allow, pst_error *err)
{
    const pst_transport *t = own->transport;
    if (t == NULL)
        return PST_OK;
    likeness *all = calloc((size_t)t->processes, sizeof *all);
    if (all == NULL)
        return pst_error_no_memory(err, "a list of processes", 0);
    pst_status status = processes_likeness(own, all, err);
    for (int i = 1; status == PST_OK && i < t->processes; i++) {
        if (memcmp(&all[i], &all[0], sizeof all[i]) == 0)
            continue;
        own->mixed = 1;
        if (!allow)
            status = refuse_mixture(t, all, i, err);
    }
    free(all);
    return processes_found(own, status, err);
}

/* The line that begins at the first difference of two texts, or before it. */
static const char *line_that_differs(const char *text, const char *other)
{
    const char *line = text;
    for (size_t i = 0; text[i] != 0 && text[i] == other[i]; i++)
        if (text[i] == '\n')
            line = text + i + 1;
    return line;
}

static pst_status refuse_told(const pst_transport *t, const char *all, size_t size,
                              int other, pst_error *err)
{
    const char *a = all, *b = all + (size_t)other * size;
    const char *line = line_that_differs(a, b);
    const char *also = b + (line - a);
    return pst_error_set(err, PST_EINVAL,
                         "%s has %.*s, and %s %.*s; the same on all would work",
                         t->where(t->self, 0), (int)strcspn(line, "\n"), line,
                         t->where(t->self, other), (int)strcspn(also, "\n"), also);
}

pst_status processes_compare_told(processes *own, const char *told, size_t size,
                                  pst_error *err)
{
    const pst_transport *t = own->transport;
    if (t == NULL)
        return PST_OK;
    char *all = calloc((size_t)t->processes, size);
    pst_error found = PST_ERROR_INIT;
    if (all == NULL)
        pst_error_no_memory(&found, "what processes were told", 0);
    pst_status status = processes_agree(own, found.status, &found);
    if (status == PST_OK)
        status = pst_transport_gather(own->transport, told, size, all, &found);
    for (int i = 1; status == PST_OK && i < t->processes; i++)
        if (memcmp(all + (size_t)i * size, all, size) != 0)
            status = processes_found(own, refuse_told(t, all, size, i, &found), &found);
    free(all);
    if (status != PST_OK)
        *err = found;
    return status;
}

pst_status processes_agree(processes *own, pst_status status, pst_error *err)
{
    pst_error found = PST_ERROR_INIT;
    if (own->transport == NULL || status == PST_EPEER)
        return status;
    const pst_error here = status == PST_OK ? found : *err;
    const pst_status agreed = pst_transport_agree(own->transport, &here, &found);
    if (agreed == PST_OK)
        return PST_OK;
    own->agreed = own->transport->failure(own->transport->self) == NULL;
    if (!own->leads)
        found.status = PST_EPEER;
    *err = found;
    return found.status;
}

/* ---- placing -------------------------------------------------------------------- */

/* "2,1,1" into counts[processes]. */
static pst_status read_workers(const char *text, int processes, int ranks, int *counts,
                               pst_error *err)
{
    const char *at = text;
    int given = 0;
    long sum = 0;
    for (;; at++) {
        char *end;
        const long count = strtol(at, &end, 10);
        if (end == at || count < 0 || count > ranks || (*end != ',' && *end != 0) ||
            given == processes)
            break;
        counts[given++] = (int)count;
        sum += count;
        at = end;
        if (*end == 0)
            break;
    }
    if (*at == 0 && at != text && given == processes && sum == ranks)
        return PST_OK;
    return pst_error_set(err, PST_EINVAL,
                         "--workers %s: it is a number for each of %d processes, as in "
                         "2,1, and they add up to the %d ranks",
                         text, processes, ranks);
}

/* Processes by host, hosts by their first process. */
static void order_by_host(const pst_transport *t, int *order)
{
    int next = 0;
    for (int i = 0; i < t->processes; i++) {
        const char *host = strrchr(t->where(t->self, i), ' ');
        int seen = 0;
        for (int k = 0; k < i; k++)
            seen |= strcmp(strrchr(t->where(t->self, k), ' '), host) == 0;
        for (int k = i; k < t->processes && !seen; k++)
            if (strcmp(strrchr(t->where(t->self, k), ' '), host) == 0)
                order[next++] = k;
    }
}

pst_status processes_place(processes *own, int ranks, const char *workers,
                           pst_error *err)
{
    const pst_transport *t = own->transport;
    if (t == NULL && workers != NULL)
        return pst_error_set(
            err, PST_EINVAL,
            "--workers %s: there is one process; a launcher of MPI, as "
            "in 'mpirun -np 2', starts several",
            workers);
    if (t == NULL)
        return PST_OK;
    const int count = t->processes;
    int *counts = calloc(2 * (size_t)count, sizeof *counts);
    free(own->process_of_rank);
    own->process_of_rank = calloc((size_t)ranks, sizeof *own->process_of_rank);
    if (counts == NULL || own->process_of_rank == NULL) {
        free(counts);
        return pst_error_no_memory(err, "the places of ranks", 0);
    }
    pst_status status = PST_OK;
    if (workers != NULL)
        status = read_workers(workers, count, ranks, counts, err);
    for (int i = 0; i < count && workers == NULL; i++)
        counts[i] = ranks / count + (i < ranks % count);
    int *order = counts + count;
    order_by_host(t, order);
    for (int i = 0, rank = 0; status == PST_OK && i < count; i++)
        for (int k = 0; k < counts[i]; k++)
            own->process_of_rank[rank++] = order[i];
    free(counts);
    return status;
}

pst_status processes_print_binding(const processes *own, const pst_pipeline *pipeline,
                                   int ranks, pst_error *err)
{
    pst_status status = PST_OK;
    for (int rank = 0; rank < ranks && status == PST_OK; rank++) {
        pst_worker_info info;
        pst_pipeline_worker(pipeline, rank, &info);
        if (own->transport != NULL)
            status = pst_transport_broadcast(own->transport, own->process_of_rank[rank],
                                             &info, sizeof info, err);
        if (!own->leads || status != PST_OK)
            continue;
        if (own->transport != NULL)
            printf("%s, ", own->transport->where(own->transport->self,
                                                 own->process_of_rank[rank]));
        binding_print(rank, &info);
    }
    if (own->leads)
        binding_print_budget();
    return status;
}

/* ---- leaving -------------------------------------------------------------------- */

void processes_leave(processes *own)
{
    launch_close(&own->launch);
    free(own->process_of_rank);
}

int processes_fail(processes *own, int status, int told)
{
    if (!told)
        poll(NULL, 0, 2000);
    return launch_fail(&own->launch, status);
}
