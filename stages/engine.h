/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - what a pipeline's caller and its workers share.
 *
 * A run goes in phases. In each the caller writes `run`, adds 1 to `start` and sleeps
 * on `finished`; every worker does its part and adds 1 to `finished`:
 *
 *     ACTIONS   the list, on all ranks, and sums of ties (tie.h)
 *     REDUCE    each stage's `reduce`
 *               (the caller asks `combine`)
 *     STEP      each stage's `step`
 *
 * A fault sets `ended`, which every waiting worker looks at (doorbell.h), and they all
 * finish the phase at once. Whatever is not atomic belongs to the caller between
 * phases, and within one to the worker of the rank it is for; `report` belongs to
 * whoever set `failed`.
 */
#ifndef PENSTOCK_STAGES_ENGINE_H
#define PENSTOCK_STAGES_ENGINE_H

#include <stdbool.h>

#include <penstock/pipeline.h>

#include "stages/arena.h"
#include "stages/channel.h"
#include "stages/doorbell.h"
#include "stages/footprint.h"
#include "stages/team_members.h"
#include "stages/thread.h"
#include "stages/tie.h"
#include "stages/topology.h"

typedef enum pst_phase {
    PST__PHASE_ACTIONS,
    PST__PHASE_REDUCE,
    PST__PHASE_STEP
} pst_phase;

/* Why a run ends before its end. */
enum { PST__GOES_ON, PST__FAILED, PST__CANCELLED, PST__TIMED_OUT, PST__CUT_OFF };

/* What a worker is doing, for the dump. */
enum { PST__IDLE, PST__WAITS, PST__RUNS, PST__REDUCES, PST__STEPS };

/* A bit of `finished` beside its count: the run has ended early, so look. */
#define PST__ENDED_EARLY 0x80000000u

/* In `failed`: no rank's error counts, the watchdog's does. */
#define PST__WATCHDOG UINT32_MAX
/* The same for the transport's. */
#define PST__TRANSPORT (UINT32_MAX - 1)

/* One loaded schedule. */
typedef struct pst_program {
    pst_footprint *footprint;
    pst_channel **channels; /* [link_count] the footprint's links, as channels */
    /* NULL where there is one process (crossing.h); else [link_count]: */
    struct pst_crossing **crossings; /* NULL: both ranks are in one process    */
    struct pst_expected **expected;  /* [expected_count] of those that come in */
    uint32_t *expected_count;
} pst_program;

typedef struct pst_crossing pst_crossing;

/* A stage with its memory on its rank. */
typedef struct pst_placed_stage {
    pst_stage stage;
    int rank;
    void *weights;
    float *gradients;
    void *optimizer;
} pst_placed_stage;

/* How much of a buffer is in use, told by the stage that filled it. */
typedef struct pst_lengths {
    size_t input;
    size_t output_grad;
} pst_lengths;

/* While a worker waits for the gradients of stage s behind its list, its position is
 * the list's length + 1 + s. */
struct pst_worker {
    _Alignas(PST__CACHE_LINE) pst_doorbell doorbell;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 position; /* steps of the phase done */
    pst_atomic_u32 state;                              /* PST__IDLE and so on   */
    pst_atomic_u64 since_ns; /* when it began or ended an action, whichever is last */
    _Alignas(PST__CACHE_LINE) pst_pipeline *pipeline;
    int rank;
    int place; /* number of the rank's in the topology                         */
    bool started;
    pst_thread thread;
    pst_team *team; /* NULL: one core                                           */
    pst_arena resident;
    pst_arena working;
    pst_trace_event *events; /* [event_room]                                   */
    size_t event_count;
    size_t event_room;
    pst_error error;
    pst_worker_info info;
    int bind_error; /* errno of a refusal to bind the thread; 0: none          */
    uint64_t delay_state;
};

/* What one phase is about; constant while it lasts. */
typedef struct pst_run {
    pst_phase phase;
    const pst_program *program;
    uint32_t microbatches; /* those from here on are passed over               */
    int64_t iteration;
    uint32_t number; /* of the run, and it wraps; for tie.h                     */
} pst_run;

struct pst_pipeline {
    pst_env env;
    pst_topology *topology; /* NULL where workers are not bound                */
    int ranks;
    int workers_here; /* ranks of this process                             */
    int sharing;      /* those, and others' that use the same CPUs                 */
    int *process_of_rank; /* NULL: all are here                                */
    int stage_count;
    pst_placed_stage *stages;
    int *rank_of_stage;
    pst_ties *ties;               /* NULL: none                                   */
    pst_pipeline_options options; /* strings and arrays in it are not used     */
    uint64_t spin_ns;             /* how long a worker looks before it sleeps  */
    pst_program *programs;
    int program_count;
    pst_channel **channels;
    size_t channel_count;
    pst_crossing **crossings; /* [crossing_room] by channel; NULL: not one     */
    size_t crossing_room;
    uint32_t first_tag;   /* of the transport; channel k has this + k             */
    pst_lengths *lengths; /* [stages][microbatches] of the present program     */
    size_t length_room;
    bool warned_of_places; /* what was refused stands in the log               */
    bool dirty;   /* a run was ended early: channels may hold messages          */
    bool broken;  /* a worker is in a callback that has not returned            */
    char *report; /* [report_room] what every rank did when the run ended early  */
    size_t report_room;
    pst_run run;
    pst_worker *workers; /* [ranks]                                            */
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 start;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 finished;
    _Alignas(PST__CACHE_LINE) pst_atomic_u32 ended; /* PST__GOES_ON and so on   */
    pst_atomic_u32 quit;   /* not 0: workers end instead of the next phase     */
    pst_atomic_u32 failed; /* 1 + the rank whose error counts, or as above    */
};

/* The stage that uses what `stage` makes, and the one before it; -1 at a
 * replica's ends. */
static inline int pst__stage_after(const pst_pipeline *p, int stage)
{
    return (stage + 1) % (p->stage_count / p->options.replicas) == 0 ? -1 : stage + 1;
}

static inline int pst__stage_before(const pst_pipeline *p, int stage)
{
    return stage % (p->stage_count / p->options.replicas) == 0 ? -1 : stage - 1;
}

/* End the present run for reason `why` unless it has ended; wakes every worker.
 * Async-signal-safe. */
void pst__pipeline_end(pst_pipeline *pipeline, uint32_t why);

/* The transport failed: keep what every rank was at, and end the run. */
void pst__pipeline_cut(pst_pipeline *pipeline);

/* Be the one who says why the run ends: `who` is 1 + a rank, PST__WATCHDOG or
 * PST__TRANSPORT. False:
 * another was first. */
bool pst__pipeline_claim_fault(pst_pipeline *pipeline, uint32_t who);

/* Write down where every rank is, with `culprit` marked. Only for who has claimed. */
void pst__pipeline_write_report(pst_pipeline *pipeline, int culprit);

/* The rank to blame where nothing moves: the one that has been in a callback for
 * longest, or the one at the end of a chain of waits. */
int pst__pipeline_culprit(const pst_pipeline *pipeline);

/* How many other ranks wait, over any number of ranks between, for `rank`. */
int pst__pipeline_waiters(const pst_pipeline *pipeline, int rank);

/* "stage 1, microbatch 2, forward (1F2)", or what else the rank is at; returns text. */
char *pst__pipeline_place_text(const pst_pipeline *pipeline, int rank, char *text,
                               size_t size);

#endif
