/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flight.h - messages under way in a walk over a list, counted by channel.
 *
 * A channel is all that goes from one rank to one other: activations and gradients,
 * of all their stages. A zeroed one counts nothing and has room for any message.
 */
#ifndef PST_SCHED_FLIGHT_H
#define PST_SCHED_FLIGHT_H

#include <penstock/schedule.h>

typedef struct pst__flight {
    uint32_t *channel_of; /* [2 stages] of a message by its sender's stage     */
    size_t *count;        /* [2 stages] sent and not received, by channel      */
} pst__flight;

/* What belongs to a SEND or RECV cell on the other side. */
pst_action pst__flight_counterpart(pst_action action);

/* Errors: PST_ENOMEM; pst__flight_fini() is due then too. */
pst_status pst__flight_init(pst__flight *flight, const pst_env *env,
                            const pst_schedule *schedule, pst_error *err);
void pst__flight_fini(pst__flight *flight, const pst_env *env);

/* How many messages lie in the channel of a SEND or RECV cell; 0 where none count. */
size_t pst__flight_count(const pst__flight *flight, pst_action action);

/* Do two SEND or RECV cells use one channel? */
int pst__flight_same_channel(const pst__flight *flight, pst_action a, pst_action b);

/* A SEND or RECV cell was done; other cells count nothing. */
void pst__flight_mark(pst__flight *flight, pst_action action);

#endif
