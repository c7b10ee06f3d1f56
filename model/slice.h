/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slice.h - blocks first .. last - 1 of a GPT, and what stands at its ends, as a stage.
 *
 * Stage 0 also has the embedding, the last one the final norm, the head and the loss.
 * Between stages runs the residual stream: (sequences, length, width) floats.
 * A slice reads its tokens from the batch that all slices share, by microbatch.
 *
 * A list may cut sequences too, into parts of tokens. Where it does, each microbatch's
 * tokens stand by part, (b, t) of the first, then of the second, and so on, and the
 * parts' keys and values are in the stage's `sequence` buffer.
 */
#ifndef PST_MODEL_SLICE_H
#define PST_MODEL_SLICE_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/gpt.h>
#include <penstock/stage.h>

#include "model/adamw.h"
#include "model/gpt_layout.h"

/*
 * What the slices of a model work on during one run of the pipeline.
 * Owns:    nothing; the trainer's arrays.
 * Threads: written between runs only, apart from loss and logits, whose parts for a
 *          microbatch are written by the worker of the last stage.
 */
typedef struct pst__batch {
    size_t length;           /* tokens of a sequence, 1 .. T                    */
    const size_t *first;     /* [microbatches + 1] where each one's sequences begin */
    int per_replica;         /* microbatches of each replica, one after the other */
    const int32_t *inputs;   /* (sequences, length), or by part: see above      */
    const int32_t *labels;   /* as inputs, or NULL: no loss                     */
    const float *loss_scale; /* [microbatches] of the gradient: 1 / valid labels of
                                all that go into one update                   */
    double *loss;            /* [microbatches][parts] sum over the labels       */
    float *logits;           /* without backward only; NULL: not wanted         */
    int last_position_only; /* logits are (sequences, V), else (sequences, length, V) */
    uint32_t dropout_key[2];
    uint32_t dropout_step;
} pst__batch;

typedef struct pst__slice {
    const pst_gpt_config *config;
    const pst__batch *batch;
    const pst_parameter *parameters; /* of this stage                          */
    size_t parameter_count;
    const pst__adamw_numbers *adamw; /* [updates of a run]                      */
    int steps_alone; /* no one asks for the whole norm between reduce and step  */
    size_t members;  /* of a rank's team                                       */
    double *squares; /* of this stage's tensors, in the norm's canonical array */
    int replica;     /* of the model, from 0                                   */
    pst__gpt_layout layout;
} pst__slice;

/* First token of part `index` of `parts` of a sequence; larger parts come first. */
static inline size_t pst__part_start(size_t length, size_t parts, size_t index)
{
    const size_t larger = length % parts;
    return index * (length / parts) + (index < larger ? index : larger);
}

/*
 * Fill in `slice->layout` and the stage's table for stage `stage` of `stages`;
 * the other members of `slice` are there. A microbatch has at most
 * `train_sequences`, each in `train_parts`; in lists without backward whole
 * sequences, at most `eval_sequences`.
 * Errors: PST_EINVAL  sizes that no memory can have.
 */
pst_status pst__slice_stage(pst__slice *slice, int stage, int stages,
                            size_t train_sequences, size_t train_parts,
                            size_t eval_sequences, pst_stage *out, pst_error *err);

#endif
