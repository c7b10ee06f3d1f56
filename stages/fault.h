/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults on purpose: what happens to a run when one callback fails, crashes,
 * hangs, or makes nonsense, tried before it happens.
 *
 * Faults are put around the callbacks of a table of stages before a pipeline is made of
 * it; the pipeline knows nothing of them. Each strikes once, in lists with backward
 * actions only. Written as text, as `pipetrain --fault` takes it:
 *
 *     stage=2,mb=5,op=F,kind=error
 *     stage=0,op=reduce,step=3,kind=slow,seconds=2
 *     op=data,kind=exit
 */
#ifndef PENSTOCK_FAULT_H
#define PENSTOCK_FAULT_H

#include <stdint.h>

#include <penstock/env.h>
#include <penstock/stage.h>

PST_BEGIN_DECLS

typedef enum pst_fault_op {
    PST_FAULT_FORWARD,         /* op=F                                         */
    PST_FAULT_BACKWARD_INPUT,  /* op=I or op=B: with it a full backward begins */
    PST_FAULT_BACKWARD_WEIGHT, /* op=W, in a full backward too                 */
    PST_FAULT_REDUCE,          /* op=reduce                                    */
    PST_FAULT_STEP,            /* op=step                                      */
    PST_FAULT_DATA             /* op=data: outside the pipeline, for its host  */
} pst_fault_op;

typedef enum pst_fault_kind {
    PST_FAULT_ERROR,   /* PST_ECALLBACK with a sentence                          */
    PST_FAULT_ABORT,   /* abort()                                                */
    PST_FAULT_EXIT,    /* exit(0), as a library may do that thinks it is alone   */
    PST_FAULT_SEGV,    /* a store to an address that is not mapped               */
    PST_FAULT_HANG,    /* never returns, and uses no CPU                         */
    PST_FAULT_NAN,     /* what the callback makes is filled with NaN: F its output, I
                          its input gradient, W the gradients (at the ends of the
                          pipeline what F and I save); reduce finds such gradients,
                          step leaves such weights                               */
    PST_FAULT_SLOW,    /* sleeps for `seconds` first                             */
    PST_FAULT_OVERFLOW /* calls itself until its stack is used up              */
} pst_fault_kind;

typedef struct pst_fault {
    pst_fault_op op;
    pst_fault_kind kind;
    int stage;      /* -1 for op=data                                          */
    int microbatch; /* -1 for reduce, step and data                            */
    int64_t step;   /* from 1: in iteration step - 1; 0: the first that comes  */
    double seconds; /* of `slow`; 0.5 where the text has none                  */
} pst_fault;

/*
 * Errors: PST_EINVAL: what is not understood, missing or does not fit together.
 */
PST_API pst_status pst_fault_parse(const char *text, pst_fault *out, pst_error *err);

/*
 * Let it happen, here and now, whatever place it is meant for.
 * Errors: PST_ECALLBACK for `error`. `nan` does nothing; `slow` returns PST_OK.
 */
PST_API pst_status pst_fault_strike(const pst_fault *fault, pst_error *err);

typedef struct pst_faults pst_faults;

/*
 * Put `count` faults, copied, around the callbacks of stages[stage_count]; those of
 * op=data are passed over. Callbacks that no fault is for are left as they are.
 * Owns:    *out is the caller's, and must outlive the pipeline made of `stages`.
 * Errors:  PST_EINVAL: a stage that is not there, or makes nothing that the fault could
 *          be in; PST_ENOMEM. `stages` is then as before.
 */
PST_API pst_status pst_faults_create(const pst_env *env, const pst_fault *faults,
                                     int count, pst_stage *stages, int stage_count,
                                     pst_faults **out, pst_error *err);

/* How many have not struck yet. Not during a run. */
PST_API int pst_faults_left(const pst_faults *faults);

/* NULL allowed. */
PST_API void pst_faults_destroy(pst_faults *faults);

PST_END_DECLS

#endif
