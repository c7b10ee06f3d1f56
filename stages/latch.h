/* SPDX-License-Identifier: BSD-3-Clause */
/* latch.h - transfers that one thread starts together and waits for. */
#ifndef PENSTOCK_STAGES_LATCH_H
#define PENSTOCK_STAGES_LATCH_H

#include <penstock/transport.h>

#include "stages/thread.h"

typedef struct pst_latch {
    pst_monitor monitor;
    size_t left;
    int failed;
} pst_latch;

void pst__latch_open(pst_latch *latch, size_t transfers);

/* *transfer made one of them, to be handed to the transport; returns it. */
pst_transfer *pst__latch_add(pst_latch *latch, pst_transfer *transfer);

/* Until all are done; closes the latch. PST_EPEER: the transport has failed. */
pst_status pst__latch_wait(pst_latch *latch, pst_transport *transport, pst_error *err);

#endif
