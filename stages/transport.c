/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.c - what all processes do together, over any transport. */
#include <penstock/transport.h>

#include <stdio.h>
#include <string.h>

#include <penstock/env.h>

#include "stages/latch.h"

/* Tags for these calls, the last two that there are. */
enum { GATHER_TAG = 1, BROADCAST_TAG = 2 };

/* Nobody waits for a process that has no memory. */
static pst_status cannot_take_part(const pst_transport *t, pst_error *err)
{
    char text[256];
    snprintf(text, sizeof text, "%s has no memory for messages",
             t->where(t->self, t->process));
    t->fail(t->self, text);
    return pst_error_set(err, PST_ENOMEM, "%s", text);
}

pst_status pst_transport_gather(pst_transport *transport, const void *own, size_t bytes,
                                void *all, pst_error *err)
{
    pst_transport *t = transport;
    const size_t others = (size_t)t->processes - 1;
    const uint32_t tag = t->tags - GATHER_TAG;
    char *to = all;
    memcpy(to + (size_t)t->process * bytes, own, bytes);
    if (others == 0)
        return PST_OK;
    pst_transfer *transfers = pst_allocate_array(NULL, 2 * others, sizeof *transfers);
    if (!transfers)
        return cannot_take_part(t, err);
    pst_latch all_done;
    pst__latch_open(&all_done, 2 * others);
    pst_transfer *next = transfers;
    for (int other = 0; other < t->processes; other++)
        if (other != t->process)
            t->receive(t->self, other, tag, to + (size_t)other * bytes, bytes,
                       pst__latch_add(&all_done, next++));
    for (int other = 0; other < t->processes; other++)
        if (other != t->process)
            t->send(t->self, other, tag, own, bytes, bytes,
                    pst__latch_add(&all_done, next++));
    const pst_status status = pst__latch_wait(&all_done, t, err);
    pst_release(NULL, transfers);
    return status;
}

pst_status pst_transport_agree(pst_transport *transport, const pst_error *own,
                               pst_error *err)
{
    pst_transport *t = transport;
    pst_error *all = pst_allocate_array(NULL, (size_t)t->processes, sizeof *all);
    if (!all)
        return cannot_take_part(t, err);
    pst_status status = pst_transport_gather(t, own, sizeof *own, all, err);
    for (int i = 0; status == PST_OK && i < t->processes; i++)
        if (all[i].status != PST_OK)
            status = pst_error_set_at(err, all[i].status,
                                      all[i].file[0] ? all[i].file : NULL, all[i].line,
                                      "%s: %s", t->where(t->self, i), all[i].text);
    pst_release(NULL, all);
    return status;
}

pst_status pst_transport_broadcast(pst_transport *transport, int from, void *data,
                                   size_t bytes, pst_error *err)
{
    pst_transport *t = transport;
    const uint32_t tag = t->tags - BROADCAST_TAG;
    const size_t others = (size_t)t->processes - 1;
    if (others == 0)
        return PST_OK;
    pst_latch all_done;
    pst_transfer one;
    if (t->process != from) {
        pst__latch_open(&all_done, 1);
        t->receive(t->self, from, tag, data, bytes, pst__latch_add(&all_done, &one));
        return pst__latch_wait(&all_done, t, err);
    }
    pst_transfer *transfers = pst_allocate_array(NULL, others, sizeof *transfers);
    if (!transfers)
        return cannot_take_part(t, err);
    pst__latch_open(&all_done, others);
    pst_transfer *next = transfers;
    for (int other = 0; other < t->processes; other++)
        if (other != from)
            t->send(t->self, other, tag, data, bytes, bytes,
                    pst__latch_add(&all_done, next++));
    const pst_status status = pst__latch_wait(&all_done, t, err);
    pst_release(NULL, transfers);
    return status;
}
