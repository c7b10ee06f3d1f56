/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.c - what all processes do together, over any transport. */
#include <penstock/transport.h>

#include <string.h>

#include <penstock/env.h>

#include "stages/thread.h"

/* Tags for these calls, the last two that there are. */
enum { GATHER_TAG = 1, BROADCAST_TAG = 2 };

/* A wait first moves transfers on by itself for so long, then it sleeps. */
enum { SPIN_NS = 50000, NAP_NS = 1000000 };

/* Transfers that one caller waits for. */
typedef struct latch {
    pst_monitor monitor;
    size_t left;
    int failed;
} latch;

static void open_latch(latch *own, size_t left)
{
    pst__monitor_init(&own->monitor);
    own->left = left;
    own->failed = 0;
}

static void arrive(pst_transfer *transfer)
{
    latch *own = transfer->user;
    pst__monitor_enter(&own->monitor);
    own->failed |= transfer->failed;
    if (--own->left == 0)
        pst__monitor_wake(&own->monitor);
    pst__monitor_leave(&own->monitor);
}

static size_t left_of(latch *own, uint64_t nap_ns)
{
    pst__monitor_enter(&own->monitor);
    if (own->left > 0 && nap_ns > 0)
        pst__monitor_sleep(&own->monitor, nap_ns);
    const size_t left = own->left;
    pst__monitor_leave(&own->monitor);
    return left;
}

/* Until all have arrived; closes the latch. */
static pst_status wait_for_all(pst_transport *t, latch *own, pst_error *err)
{
    const uint64_t start = pst__now_ns();
    while (left_of(own, pst__now_ns() - start < SPIN_NS ? 0 : NAP_NS) > 0)
        t->progress(t->self);
    const int failed = own->failed;
    pst__monitor_fini(&own->monitor);
    if (!failed)
        return PST_OK;
    const char *why = t->failure(t->self);
    return pst_error_set(err, PST_ECALLBACK, "%s",
                         why ? why : "a message between processes was not carried out");
}

static pst_transfer *start(pst_transfer *transfer, latch *own)
{
    *transfer = (pst_transfer){.done = arrive, .user = own};
    return transfer;
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
        return pst_error_no_memory(err, "messages to all processes", 0);
    latch all_done;
    open_latch(&all_done, 2 * others);
    pst_transfer *next = transfers;
    for (int other = 0; other < t->processes; other++)
        if (other != t->process)
            t->receive(t->self, other, tag, to + (size_t)other * bytes, bytes,
                       start(next++, &all_done));
    for (int other = 0; other < t->processes; other++)
        if (other != t->process)
            t->send(t->self, other, tag, own, bytes, bytes, start(next++, &all_done));
    const pst_status status = wait_for_all(t, &all_done, err);
    pst_release(NULL, transfers);
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
    latch all_done;
    pst_transfer one;
    if (t->process != from) {
        open_latch(&all_done, 1);
        t->receive(t->self, from, tag, data, bytes, start(&one, &all_done));
        return wait_for_all(t, &all_done, err);
    }
    pst_transfer *transfers = pst_allocate_array(NULL, others, sizeof *transfers);
    if (!transfers)
        return pst_error_no_memory(err, "messages to all processes", 0);
    open_latch(&all_done, others);
    pst_transfer *next = transfers;
    for (int other = 0; other < t->processes; other++)
        if (other != from)
            t->send(t->self, other, tag, data, bytes, bytes, start(next++, &all_done));
    const pst_status status = wait_for_all(t, &all_done, err);
    pst_release(NULL, transfers);
    return status;
}
