/* SPDX-License-Identifier: BSD-3-Clause */
/* flight.c - messages under way in a walk over a list, counted by channel. */
#include <stdlib.h>

#include "sched/flight.h"

/* One kind of message, by what it carries and the stage that makes it. */
typedef struct link {
    int from, to; /* ranks                                                     */
    uint32_t slot;
} link;

pst_action pst__flight_counterpart(pst_action a)
{
    switch (a.op) {
    case PST_OP_SEND_FORWARD:
        a.op = PST_OP_RECEIVE_FORWARD;
        a.stage++;
        break;
    case PST_OP_RECEIVE_FORWARD:
        a.op = PST_OP_SEND_FORWARD;
        a.stage--;
        break;
    case PST_OP_SEND_BACKWARD:
        a.op = PST_OP_RECEIVE_BACKWARD;
        a.stage--;
        break;
    default:
        a.op = PST_OP_SEND_BACKWARD;
        a.stage++;
        break;
    }
    return a;
}

static int by_ranks(const void *a, const void *b)
{
    const link *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Both directions of every stage; ends of the pipeline have a rank of -1 beyond them.
 */
static void list_links(const pst_schedule *schedule, link *links)
{
    for (int stage = 0; stage < pst_schedule_stages(schedule); stage++) {
        const int next = pst_schedule_next_stage(schedule, stage);
        const int previous = pst_schedule_previous_stage(schedule, stage);
        const int from = pst_schedule_rank_of(schedule, stage);
        const uint32_t slot = 2 * (uint32_t)stage;
        links[slot] =
            (link){from, next < 0 ? -1 : pst_schedule_rank_of(schedule, next), slot};
        links[slot + 1] =
            (link){from, previous < 0 ? -1 : pst_schedule_rank_of(schedule, previous),
                   slot + 1};
    }
}

pst_status pst__flight_init(pst__flight *flight, const pst_env *env,
                            const pst_schedule *schedule, pst_error *err)
{
    const size_t count = 2 * (size_t)pst_schedule_stages(schedule);
    link *links = pst_allocate_array(env, count, sizeof *links);
    flight->channel_of = pst_allocate_array(env, count, sizeof *flight->channel_of);
    flight->count = pst_allocate_array(env, count, sizeof *flight->count);
    if (links == NULL || flight->channel_of == NULL || flight->count == NULL) {
        pst_release(env, links);
        return pst_error_no_memory(err, "a check of channels", count * sizeof *links);
    }
    list_links(schedule, links);
    qsort(links, count, sizeof *links, by_ranks);
    uint32_t channel = 0;
    for (size_t i = 0; i < count; i++) {
        channel += i > 0 && by_ranks(&links[i - 1], &links[i]) != 0;
        flight->channel_of[links[i].slot] = channel;
    }
    pst_release(env, links);
    return PST_OK;
}

void pst__flight_fini(pst__flight *flight, const pst_env *env)
{
    pst_release(env, flight->channel_of);
    pst_release(env, flight->count);
}

static uint32_t channel_of(const pst__flight *flight, pst_action a)
{
    if (a.op == PST_OP_RECEIVE_FORWARD || a.op == PST_OP_RECEIVE_BACKWARD)
        a = pst__flight_counterpart(a);
    return flight->channel_of[2 * (size_t)a.stage + (a.op == PST_OP_SEND_BACKWARD)];
}

size_t pst__flight_count(const pst__flight *flight, pst_action action)
{
    return flight->count != NULL ? flight->count[channel_of(flight, action)] : 0;
}

int pst__flight_same_channel(const pst__flight *flight, pst_action a, pst_action b)
{
    return channel_of(flight, a) == channel_of(flight, b);
}

void pst__flight_mark(pst__flight *flight, pst_action a)
{
    if (flight->count == NULL)
        return;
    if (a.op == PST_OP_SEND_FORWARD || a.op == PST_OP_SEND_BACKWARD)
        flight->count[channel_of(flight, a)]++;
    else if (a.op == PST_OP_RECEIVE_FORWARD || a.op == PST_OP_RECEIVE_BACKWARD)
        flight->count[channel_of(flight, a)]--;
}
