/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulate.h - when everything happens, if each action takes a given time.
 *
 * Every action starts as soon as its rank is free and its inputs have arrived;
 * sends do not block. Units of time are the caller's.
 *
 * Without hosts every message between two ranks is under way for latency +
 * message_bytes / bandwidth, however many others are. With hosts (pst_network) those
 * within a host take no time, and the others go over links, one after the other.
 */
#ifndef PENSTOCK_SIMULATE_H
#define PENSTOCK_SIMULATE_H

#include <stddef.h>

#include <penstock/schedule.h>

PST_BEGIN_DECLS

/* From one host to one other; the way back is a link of its own. */
typedef struct pst_network_link {
    double latency;   /* from when the last byte has left to when it is there    */
    double bandwidth; /* bytes per unit of time; above 0, INFINITY: no limit     */
} pst_network_link;

/*
 * Which hosts there are. A message goes onto the link of its two hosts as soon as it is
 * made and the link is free, in the order in which messages are made, and keeps the
 * link for message_bytes / bandwidth. Those made at one moment go in the order of their
 * ranks and rows.
 */
typedef struct pst_network {
    int hosts;               /* 1 to as many as ranks                            */
    const int *host_of_rank; /* [ranks], each 0 to hosts - 1                     */
    const pst_network_link *links; /* [hosts][hosts], from x hosts + to; NULL: each has
                              the latency and bandwidth of pst_costs           */
} pst_network;

/* Zeroed means: every F, I and W takes 1 and messages take no time. */
typedef struct pst_costs {
    const double *forward;         /* one a stage, per action; NULL: 1 each    */
    const double *backward_input;  /* B takes this and ...                     */
    const double *backward_weight; /* ... this                                 */
    double pair;                   /* a pair as a whole; 0: the sum of its two */
    double latency;                /* of a message between ranks               */
    double bandwidth;              /* bytes per unit of time; 0: infinite      */
    double message_bytes;          /* of one microbatch between two stages     */
    int iterations;                /* the list over and over, back to back; 0: 1 */
    /* What one computing action takes, 0 or more and finite; asked once for each in
     * every iteration, in no order. NULL: by stage, as above. */
    double (*duration)(void *user, pst_action action);
    void *duration_user;
    /* NULL: no hosts. Borrowed, with its arrays, until pst_simulate() returns. */
    const pst_network *network;
} pst_costs;

/*
 * Rates of idle time go by the busiest rank's work: of_makespan is
 * 1 - work / makespan, of_ideal is makespan / work - 1, and longest_rank is
 * 1 - work / (the longest time from a rank's first start to its last end).
 */
typedef struct pst_bubble {
    double of_makespan;
    double of_ideal;
    double longest_rank;
} pst_bubble;

/* All arrays are the simulation's own and may be read until it is destroyed. */
typedef struct pst_simulation {
    int ranks;
    int stages;
    int microbatches;
    int iterations;
    double makespan;     /* end of the last action; the first starts at 0      */
    double longest_rank; /* largest last end - first start of a rank           */
    double ideal;        /* work of the busiest rank                           */
    pst_bubble bubble;
    double *busy;          /* [ranks] work of each                           */
    int *peak_activations; /* [ranks] most stage-microbatches held at once, and the
                              most that are evicted to the rank at once       */
    int updates;           /* of the weights, by STEP, in one iteration; 0: none */
    int *weight_versions;  /* [ranks] most of a stage's that are needed at once */
    int max_queue_depth;   /* most messages sent but not used on one directed
                              rank pair; at one instant sends count first    */
    size_t *count;         /* [ranks] actions: row length x iterations       */
    double **start;        /* [ranks][count]                                 */
    double **end;          /* [ranks][count]; an action without cost (SEND,
                              RECV and the like) has end = start             */
    int hosts;             /* of the network; 0: none, and the two are NULL  */
    double *link_busy;     /* [hosts][hosts], from x hosts + to: how long the
                              link was kept by messages                      */
    double *link_wait;     /* the same: the longest that one waited for it   */
} pst_simulation;

/*
 * Errors: PST_EINVAL (a cost below zero or not finite, a network that is none),
 *         PST_EDEADLOCK, PST_ENOMEM.
 * Cost:   O(1) an action, and O(log of messages that wait) one between hosts; 16 bytes
 *         an action of result.
 */
PST_API pst_status pst_simulate(const pst_env *env, const pst_schedule *schedule,
                                const pst_costs *costs, pst_simulation **out,
                                pst_error *err);
PST_API void pst_simulation_destroy(pst_simulation *simulation);

PST_END_DECLS

#endif
