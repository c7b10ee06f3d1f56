/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.h - messages between hosts: each link carries one after the other.
 *
 * A message goes onto its link when it is ready and the link is free, and keeps it for
 * bytes / bandwidth; it arrives the link's latency later. Links of the two directions
 * know nothing of each other.
 *
 * The caller pops a message only when no other that it may still push is ready earlier;
 * so links are filled in the order of readiness.
 */
#ifndef PST_SCHED_NETWORK_H
#define PST_SCHED_NETWORK_H

#include <penstock/simulate.h>

/* Of those ready at one moment the lower sender's goes first, then that pushed first.
 */
typedef struct pst__message {
    double ready;
    size_t what;  /* the caller's */
    size_t order; /* of pushing   */
    int from, to; /* ranks        */
} pst__message;

typedef struct pst__network {
    const pst_env *env;
    const pst_network *network;
    double latency, occupied; /* of a link of `costs`, where there are no others   */
    double message_bytes;
    double *free_at, *busy, *wait; /* [hosts][hosts]; the last two are the caller's */
    pst__message *heap;            /* the earliest first                           */
    size_t count, room, pushed;
} pst__network;

/* `costs` is borrowed until fini, and its network is one.
 * Errors: PST_ENOMEM; fini is due then as well. */
pst_status pst__network_init(pst__network *l, const pst_env *env,
                             const pst_costs *costs, double *busy, double *wait,
                             pst_error *err);
void pst__network_fini(pst__network *l);

/* Is there a link between the hosts of these ranks? */
int pst__network_cross(const pst__network *l, int from, int to);

/* Errors: PST_ENOMEM. */
pst_status pst__network_push(pst__network *l, double ready, int from, int to,
                             size_t what, pst_error *err);

/* False: there is none. Otherwise the earliest, and when it arrives. */
int pst__network_pop(pst__network *l, pst__message *message, double *arrival);

/* PST_EINVAL where a network cannot be one of so many ranks. */
pst_status pst__network_check(const pst_network *network, int ranks, pst_error *err);

#endif
