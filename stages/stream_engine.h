/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_engine.h - what a stream's caller and its workers share.
 *
 * A group is a stage and those that share its worker; each replica of a group is one
 * worker. Where groups of equal replicas follow each other, replica i feeds replica i.
 * Where they part, one worker gives each token to the replica with the fewest waiting;
 * where they join, one worker takes them by number. A token always reaches the join, as
 * a hole if its item was dropped.
 *
 * Why the join needs no buffer and cannot lock: what a replica is given ascends and it
 * keeps that order. So the number that the join wants is, once it is there, the first
 * in its flow; and whatever stands before it on its way there is smaller, hence taken
 * already or the wanted one itself. Full flows of other replicas hold larger numbers
 * only, and wait.
 *
 * Whatever is not atomic belongs to the caller between runs, and in a run to the worker
 * it is for.
 */
#ifndef PENSTOCK_STAGES_STREAM_ENGINE_H
#define PENSTOCK_STAGES_STREAM_ENGINE_H

#include <stdbool.h>

#include <penstock/stream.h>

#include "stages/arena.h"
#include "stages/crew.h"
#include "stages/flow.h"

/* Why a run ends before its end. */
enum {
    PST__STREAM_GOES_ON,
    PST__STREAM_FAILED,
    PST__STREAM_CANCELLED,
    PST__STREAM_LATE
};

/* What a worker is doing, for the dump; from PST__STREAM_CALLS on: in a callback of
 * stage state - PST__STREAM_CALLS. */
enum {
    PST__STREAM_IDLE,
    PST__STREAM_HAS_ENDED,
    PST__STREAM_TAKES,
    PST__STREAM_GIVES,
    PST__STREAM_CALLS
};

typedef struct pst_stream_worker_state {
    _Alignas(PST__CACHE_LINE) pst_doorbell doorbell;
    /* for the watchdog and the dump: */
    _Alignas(PST__CACHE_LINE) pst_atomic_u64 position; /* the number of its item */
    pst_atomic_u32 state;
    /* from here: the worker's alone */
    _Alignas(PST__CACHE_LINE) pst_stream *stream;
    int number;
    int first_stage;
    int stage_end; /* first_stage .. stage_end - 1 are its stages               */
    int replica;
    bool in_order; /* it takes tokens by number                                 */
    pst_flow **in; /* the source's is where buffers come back, if any           */
    int in_count;
    pst_flow **out; /* and so is the sink's                                     */
    int out_count;
    int in_at;      /* the flow that gave the last token                       */
    int out_at;     /* the flow that got the last token, or must get this one  */
    bool out_any;   /* any flow may get this one                               */
    uint64_t next;  /* the number of the next token to be taken                */
    uint32_t moved; /* tokens since it settled                                 */
    uint64_t spin_ns;
    uint64_t taken; /* by the sink                                              */
    pst_token held; /* what a run that ended early left in its hands            */
    bool holds;
    pst_stream_item item;
    pst_error callback_error;
    pst_error error;
} pst_stream_worker_state;

struct pst_stream {
    pst_env env;
    pst_topology *topology; /* NULL where workers are not bound                 */
    pst_stream_stage *stages;
    int stage_count;
    pst_stream_options options; /* strings in it are not used                   */
    pst_stream_worker_state *workers;
    int worker_count;
    uint64_t spin_ns; /* the longest that a worker looks before it sleeps       */
    pst_flow *flows;
    int flow_count;
    pst_flow **ends; /* what `in` and `out` of all workers point into           */
    pst_arena buffers;
    size_t buffer_stride;
    bool dirty; /* a run was ended early: tokens may be left                    */
    pst_crew crew;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 ended; /* PST__STREAM_GOES_ON and so on */
    pst_atomic_u32 failed; /* 1 + the worker whose error counts                 */
};

/* Has the runtime its own buffers, in flow 0? */
static inline bool pst__stream_owns_buffers(const pst_stream *stream)
{
    return stream->options.item_bytes != 0;
}

static inline int pst__stream_replicas(const pst_stream_stage *stage)
{
    return stage->replicas ? stage->replicas : 1;
}

/* What to call a stage in a sentence; returns text. */
char *pst__stream_stage_text(const pst_stream *stream, int stage, char *text,
                             size_t size);

/* An item's pointer that goes no further. */
void pst__stream_discard(const pst_stream *stream, void *data);

/* End the present run for reason `why` unless it has ended; wakes every worker.
 * Async-signal-safe. */
void pst__stream_end(pst_stream *stream, uint32_t why);

/* A worker's part in a run. */
void pst__stream_work(void *stream, int worker);

#endif
