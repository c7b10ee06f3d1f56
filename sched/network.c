/* SPDX-License-Identifier: BSD-3-Clause */
/* network.c - a heap of messages, and when each link is free. */
#include <math.h>

#include "sched/network.h"

static pst_status check_link(const pst_network *n, int from, int to, pst_error *err)
{
    const pst_network_link *link = &n->links[from * n->hosts + to];
    if (!(link->latency >= 0) || isinf(link->latency))
        return pst_error_set(
            err, PST_EINVAL,
            "latency %g of the link from host %d to host %d: must be 0 or more",
            link->latency, from, to);
    if (!(link->bandwidth > 0))
        return pst_error_set(
            err, PST_EINVAL,
            "bandwidth %g of the link from host %d to host %d: must be above 0",
            link->bandwidth, from, to);
    return PST_OK;
}

pst_status pst__network_check(const pst_network *n, int ranks, pst_error *err)
{
    if (n->hosts < 1 || n->hosts > ranks)
        return pst_error_set(err, PST_EINVAL,
                             "%d hosts: must be 1 to %d, as there are ranks", n->hosts,
                             ranks);
    for (int rank = 0; rank < ranks; rank++)
        if (n->host_of_rank[rank] < 0 || n->host_of_rank[rank] >= n->hosts)
            return pst_error_set(err, PST_EINVAL, "host %d of rank %d: must be 0 to %d",
                                 n->host_of_rank[rank], rank, n->hosts - 1);
    for (int from = 0; n->links != NULL && from < n->hosts; from++)
        for (int to = 0; to < n->hosts; to++)
            if (from != to && check_link(n, from, to, err) != PST_OK)
                return PST_EINVAL;
    return PST_OK;
}

pst_status pst__network_init(pst__network *l, const pst_env *env,
                             const pst_costs *costs, double *busy, double *wait,
                             pst_error *err)
{
    *l = (pst__network){.env = env,
                        .network = costs->network,
                        .latency = costs->latency,
                        .message_bytes = costs->message_bytes,
                        .busy = busy,
                        .wait = wait};
    if (costs->bandwidth > 0)
        l->occupied = costs->message_bytes / costs->bandwidth;
    const size_t hosts = (size_t)costs->network->hosts;
    l->free_at = pst_allocate_array(env, hosts * hosts, sizeof *l->free_at);
    if (l->free_at == NULL)
        return pst_error_no_memory(err, "links", hosts * hosts * sizeof *l->free_at);
    return PST_OK;
}

void pst__network_fini(pst__network *l)
{
    pst_release(l->env, l->free_at);
    pst_release(l->env, l->heap);
}

int pst__network_cross(const pst__network *l, int from, int to)
{
    return l->network->host_of_rank[from] != l->network->host_of_rank[to];
}

static int is_before(const pst__message *a, const pst__message *b)
{
    if (a->ready != b->ready)
        return a->ready < b->ready;
    return a->from != b->from ? a->from < b->from : a->order < b->order;
}

static pst_status make_room(pst__network *l, pst_error *err)
{
    const size_t room = l->room > 0 ? 2 * l->room : 64;
    pst__message *heap =
        pst_grow(l->env, l->heap, l->room * sizeof *l->heap, room * sizeof *l->heap);
    if (heap == NULL)
        return pst_error_no_memory(err, "messages", room * sizeof *l->heap);
    l->heap = heap;
    l->room = room;
    return PST_OK;
}

pst_status pst__network_push(pst__network *l, double ready, int from, int to,
                             size_t what, pst_error *err)
{
    if (l->count == l->room && make_room(l, err) != PST_OK)
        return PST_ENOMEM;
    const pst__message message = {ready, what, l->pushed++, from, to};
    size_t at = l->count++;
    while (at > 0 && is_before(&message, &l->heap[(at - 1) / 2])) {
        l->heap[at] = l->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    l->heap[at] = message;
    return PST_OK;
}

static pst__message take_first(pst__network *l)
{
    const pst__message first = l->heap[0], last = l->heap[--l->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < l->count) {
        if (child + 1 < l->count && is_before(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!is_before(&l->heap[child], &last))
            break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = last;
    return first;
}

int pst__network_pop(pst__network *l, pst__message *message, double *arrival)
{
    if (l->count == 0)
        return 0;
    *message = take_first(l);
    const pst_network *n = l->network;
    const size_t at = (size_t)n->host_of_rank[message->from] * (size_t)n->hosts +
                      (size_t)n->host_of_rank[message->to];
    double latency = l->latency, occupied = l->occupied;
    if (n->links != NULL) {
        latency = n->links[at].latency;
        occupied = l->message_bytes / n->links[at].bandwidth;
    }
    const double begin = fmax(message->ready, l->free_at[at]);
    l->free_at[at] = begin + occupied;
    l->busy[at] += occupied;
    l->wait[at] = fmax(l->wait[at], begin - message->ready);
    *arrival = begin + occupied + latency;
    return 1;
}
