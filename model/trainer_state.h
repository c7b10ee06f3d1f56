/* SPDX-License-Identifier: BSD-3-Clause */
/* trainer_state.h - what the files of the trainer share: its inside. */
#ifndef PST_MODEL_TRAINER_STATE_H
#define PST_MODEL_TRAINER_STATE_H

#include <penstock/checkpoint.h>
#include <penstock/trainer.h>

#include "model/adamw.h"
#include "model/slice.h"

struct pst_trainer {
    pst_env env;
    pst_gpt_config model;
    pst_adamw optimizer;
    uint64_t seed;
    int batch_size;
    int replicas; /* of the model, over all copies of the list       */
    int copies;   /* of the list side by side; they divide replicas  */
    int stages;   /* of one replica                                  */
    int ranks;
    int team; /* cores of each rank                               */
    int microbatches;
    int parts;           /* that the list cuts each sequence into           */
    int eval_microbatch; /* sequences in a microbatch of the forward-only list */
    int eval_microbatches;
    int64_t steps;     /* done                                            */
    int blas;          /* what pst_blas_release() wants back, + 1; 0: none */
    int only_gradient; /* the present run makes no step                   */

    pst__slice *slices;        /* [replicas][stages]                              */
    pst_parameter *parameters; /* of all stages, one after the other           */
    size_t tensor_count;       /* without the head's copy of a tied wte           */
    pst_tensor *weights;       /* [tensor_count] canonical order                  */
    pst_tensor *gradients;
    pst_tensor *moments; /* [2 tensor_count] m.NAME and v.NAME in turn      */
    double *squares;     /* [replicas][tensor_count]; the first's count     */

    pst__batch batch;    /* what the slices work on at present              */
    size_t *train_first; /* [microbatches + 1]                              */
    size_t largest;      /* sequences of the largest of them                */
    size_t *share;       /* [copies] sequences of each                      */
    size_t *eval_first;  /* [eval_microbatches + 1]                         */
    double *loss;        /* [max(microbatches parts, eval_microbatches)]    */
    int32_t *cut_inputs; /* (batch, T) by part (slice.h); NULL: one part    */
    int32_t *cut_labels;
    double norm; /* of the last gradient                            */
    int updates; /* by STEPs of the training list; 0: it has none   */
    pst_weight_policy weight_policy;
    int *update_of;              /* [microbatches] whose sum takes it in            */
    float *loss_scale;           /* [microbatches]                                  */
    pst__adamw_numbers *numbers; /* [updates, or 1]                                 */

    pst_checkpoint_writer *writer; /* NULL: nothing has been saved while training    */
    pst_pipeline *pipeline;
    int train_program;
    int eval_program;

    /* trainer_peers.c's; NULL where there is one process: */
    pst_transport *transport;
    int *process_of_stage; /* [replicas][stages]                              */
    int *stage_of_tensor;  /* [tensor_count]                                  */
    double *told;          /* what this process tells, then what each has told */
    /* of the last list: */
    double span;    /* seconds from its first action to its last               */
    double busiest; /* seconds in actions of the busiest rank                  */
    int asked_to_stop;
    int stops; /* some process was asked                                       */
};

/* Run `sequences` of at most eval_microbatch x eval_microbatches sequences forward,
 * with batch.length, inputs, labels, logits and last_position_only as the caller set
 * them. */
pst_status pst__trainer_forward(pst_trainer *trainer, size_t sequences, pst_error *err);

/* Errors: PST_EINVAL: an id outside 0 .. V - 1, and where. labels may be NULL. */
pst_status pst__trainer_check_ids(const pst_trainer *trainer, size_t sequences,
                                  size_t length, const int32_t *inputs,
                                  const int32_t *labels, pst_error *err);

/* Give all weights their initial values, from the seed. */
pst_status pst__trainer_initialize(pst_trainer *trainer, pst_error *err);

#endif
