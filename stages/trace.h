/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h - what a run did and when: one event an action. */
#ifndef PENSTOCK_TRACE_H
#define PENSTOCK_TRACE_H

#include <stdint.h>

#include <penstock/api.h>

PST_BEGIN_DECLS

/* One action of one rank. Times are nanoseconds of CLOCK_MONOTONIC. */
typedef struct pst_trace_event {
    uint64_t start_ns;   /* the callback began: inputs were there              */
    uint64_t end_ns;     /* the callback had returned                          */
    uint32_t microbatch; /* as the list writes it: slices count                */
    uint32_t iteration;  /* low 32 bits                                        */
    uint16_t stage;
    uint16_t cpu; /* on which it ended; 65,535: unknown                        */
    uint8_t op;   /* enum pst_op                                               */
    uint8_t paired;
    uint16_t rank;
} pst_trace_event;

PST_END_DECLS

#endif
