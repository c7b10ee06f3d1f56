/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.h - one stage of a pipeline: a table of callbacks and the sizes they need.
 *
 * The runtime owns and places every buffer, on the memory of the worker that runs
 * the stage; a stage never allocates while a pipeline runs. The buffers of one
 * microbatch and how long each lives (F forward, I backward-input, W
 * backward-weight; a full backward is I and then W):
 *
 *     input        from the stage before   ... end of `input_held`
 *     output       F                       ... handed to the next stage
 *     saved_for_input    F ............. I
 *     saved_for_weight   F ...................... W
 *     kept                             I ........ W
 *     output_grad  from the next stage     ... end of `output_grad_held`
 *     input_grad   I                       ... handed to the stage before
 *     scratch      within one callback only
 *
 * Where a list cuts sequences into slices (pst_schedule_slices), all of these are of
 * one slice, and its slices on a stage share one more:
 *
 *     sequence     F of slice 0 ... I of slice 0, which is the last (check.h);
 *                  without backward ... F of the last slice
 *
 * Contents of fresh buffers are undefined (NaN where the library was configured with
 * --enable-debug). All are 64-byte aligned.
 */
#ifndef PENSTOCK_STAGE_H
#define PENSTOCK_STAGE_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/error.h>
#include <penstock/team.h>

PST_BEGIN_DECLS

/* The operation at whose end the runtime may reuse a buffer. */
typedef enum pst_held {
    PST_HELD_TO_FORWARD, /* for output_grad: to backward-input         */
    PST_HELD_TO_BACKWARD_INPUT,
    PST_HELD_TO_BACKWARD_WEIGHT
} pst_held;

/* What a callback works on. Buffers that a stage has no size for are NULL. */
typedef struct pst_work {
    int stage;
    int microbatch; /* a whole one: cells, traces and keys of messages have
                       i k + j for slice j of k of microbatch i. In reduce and
                       step the last of a STEP's batch, or -1          */
    int slice;      /* 0 .. slices - 1                              */
    int slices;     /* k; 1 where the list does not cut sequences   */
    int rank;
    int64_t iteration;
    int update;     /* reduce, step: how many of the list's STEPs came before */
    int training;   /* 0: the list has no backward; nothing is saved,
                       and the saved buffers are NULL               */
    pst_team *team; /* the cores of the rank; NULL: one             */

    const void *input;   /* NULL at stage 0                              */
    size_t input_bytes;  /* as many as the stage before said it made     */
    void *output;        /* NULL at the last stage                       */
    size_t output_bytes; /* F: the stage's size; the callback may lower it */

    const void *output_grad; /* NULL at the last stage                       */
    size_t output_grad_bytes;
    void *input_grad;        /* NULL at stage 0                              */
    size_t input_grad_bytes; /* I: the stage's input size; may be lowered    */

    void *saved_for_input;
    void *saved_for_weight;
    void *kept;
    void *scratch;
    void *sequence; /* F and I; NULL where the list has no slices   */

    void *weights;    /* the stage's own, for as long as the pipeline; F, I
                         and W of a list with STEPs: the version that the
                         microbatch uses                              */
    float *gradients; /* W only: see `backward_weight`                */
    void *optimizer;  /* in `step` only                               */
} pst_work;

/* Returns PST_OK, or a status after setting `err`: the run then ends on all ranks. */
typedef pst_status (*pst_stage_function)(void *self, pst_work *work, pst_error *err);

typedef struct pst_stage {
    void *self; /* handed to every callback; borrowed           */

    size_t input_bytes;  /* of one microbatch, at most; 0 for stage 0    */
    size_t output_bytes; /* = the next stage's input_bytes; 0 for the last */
    size_t saved_for_input_bytes;
    size_t saved_for_weight_bytes;
    size_t kept_bytes;
    size_t scratch_bytes;
    size_t sequence_bytes; /* of one whole microbatch; lists with slices only */
    size_t weight_bytes;
    size_t gradient_count; /* floats                                       */
    size_t optimizer_bytes;
    pst_held input_held;
    pst_held output_grad_held;

    /* F. Runs on the rank's worker, as do all others. Must be there. */
    pst_stage_function forward;
    /* I. NULL in stages that only ever run forward. */
    pst_stage_function backward_input;
    /*
     * W. Adds this microbatch's gradient to work->gradients, in one addition an
     * element: g = g + c, where c does not depend on g. The runtime zeroes them
     * before an iteration and after each STEP, and hands contributions over in
     * ascending microbatch order, and of one microbatch from the last slice to the
     * first, whatever the list's order is: an early one is computed into a waiting
     * buffer. So sums have the same bits for every schedule. NULL: no weights.
     */
    pst_stage_function backward_weight;
    /* After all actions of a training iteration and after ties were summed, or at each
     * STEP of a list that has them, where nothing is between it and `step`; may
     * prepare what `combine` (pipeline.h) reads. work has weights, gradients and
     * optimizer. NULL: nothing. */
    pst_stage_function reduce;
    /* The optimizer's step, after `combine` said yes. As `reduce`. NULL: nothing. */
    pst_stage_function step;
} pst_stage;

PST_END_DECLS

#endif
