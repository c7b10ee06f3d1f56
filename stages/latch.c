/* SPDX-License-Identifier: BSD-3-Clause */
/* latch.c - waiting for transfers. */
#include "stages/latch.h"

/* A wait first moves transfers on by itself for so long, then it sleeps. */
enum { SPIN_NS = 50000, NAP_NS = 100000 };

void pst__latch_open(pst_latch *latch, size_t transfers)
{
    pst__monitor_init(&latch->monitor);
    latch->left = transfers;
    latch->failed = 0;
}

static void arrive(pst_transfer *transfer)
{
    pst_latch *latch = transfer->user;
    pst__monitor_enter(&latch->monitor);
    latch->failed |= transfer->failed;
    if (--latch->left == 0)
        pst__monitor_wake(&latch->monitor);
    pst__monitor_leave(&latch->monitor);
}

pst_transfer *pst__latch_add(pst_latch *latch, pst_transfer *transfer)
{
    *transfer = (pst_transfer){.done = arrive, .user = latch};
    return transfer;
}

static size_t left_of(pst_latch *latch, uint64_t nap_ns)
{
    pst__monitor_enter(&latch->monitor);
    if (latch->left > 0 && nap_ns > 0)
        pst__monitor_sleep(&latch->monitor, nap_ns);
    const size_t left = latch->left;
    pst__monitor_leave(&latch->monitor);
    return left;
}

pst_status pst__latch_wait(pst_latch *latch, pst_transport *transport, pst_error *err)
{
    const uint64_t start = pst__now_ns();
    while (left_of(latch, pst__now_ns() - start < SPIN_NS ? 0 : NAP_NS) > 0)
        transport->progress(transport->self);
    const int failed = latch->failed;
    pst__monitor_fini(&latch->monitor);
    if (!failed)
        return PST_OK;
    const char *why = transport->failure(transport->self);
    return pst_error_set(err, PST_EPEER, "%s",
                         why ? why : "a message between processes was not carried out");
}
