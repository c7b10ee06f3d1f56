/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trainer.h - a GPT on a pipeline, with its optimizer: step, evaluate, generate, save.
 *
 * The weights after N steps have the same bits for every schedule with one replica,
 * number of stages and placement, for a given batch and number of microbatches, slices
 * and copies side by side (data parallelism), and given shares of these.
 *
 * Several processes, each with its ranks (pst_pipeline_options.transport), make the
 * same trainer and make every call together, with the same batches; whatever a call
 * gives, all get. Tensors of stages that are in another process have no data.
 *
 * Threads: one thread at a time uses a trainer.
 */
#ifndef PENSTOCK_TRAINER_H
#define PENSTOCK_TRAINER_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/gpt.h>
#include <penstock/pipeline.h>
#include <penstock/schedule.h>

PST_BEGIN_DECLS

/*
 * AdamW: m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2, w -= lr (decay w +
 * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + epsilon)), as PyTorch computes it.
 * Rate at step s (from 0): lr (s+1)/warmup while s < warmup, then a cosine from lr
 * to min_lr at step `steps`, then min_lr. Zeroed members that name a default have it.
 */
typedef struct pst_adamw {
    double lr;      /* 1e-3                                                    */
    double min_lr;  /* below 0: lr / 10. 0 is 0                                */
    double beta1;   /* 0.9                                                     */
    double beta2;   /* 0.99                                                    */
    double epsilon; /* 1e-8                                                    */
    double weight_decay;
    int decay_all; /* 1: vectors too                                          */
    double clip;   /* largest global norm of the gradient; 0: no clipping     */
    int64_t warmup;
    int64_t steps; /* horizon of the cosine; 0: constant lr                   */
} pst_adamw;

typedef struct pst_trainer_options {
    pst_gpt_config model;
    pst_adamw optimizer;
    int batch;                     /* B, sequences a step                       */
    int eval_microbatch;           /* sequences in a microbatch of evaluate; 0:
                                      as in training                            */
    const pst_schedule *schedule;  /* S and m come from it; borrowed for create */
    uint64_t seed;                 /* of initial weights and dropout            */
    pst_pipeline_options pipeline; /* ties, combine, replicas and worker_start are
                                      the trainer's; team 0 means as many cores a
                                      rank as pst_pipeline_team() finds         */
    /* Called by create with the table of all `count` stages, those of every replica,
     * before the pipeline is made of it; may put callbacks of its own around them
     * (fault.h, finite.h). NULL: nothing. */
    pst_status (*decorate)(void *user, pst_stage *stages, int count, pst_error *err);
    void *decorate_user;
    const int *shares; /* [pst_schedule_data_parallel()] of the batch, that its copies
                          take, relative to each other and above 0; borrowed for create.
                          NULL: equal ones                                       */
} pst_trainer_options;

typedef struct pst_trainer pst_trainer;

/* What one step did. */
typedef struct pst_step_report {
    int64_t step;         /* from 1                                             */
    double loss;          /* mean over the batch's valid labels, before the step */
    double gradient_norm; /* before clipping                                   */
    double lr;
    int64_t tokens;  /* valid labels                                       */
    double seconds;  /* of the whole step                                  */
    double makespan; /* seconds from the first action's start to the last's end */
    double bubble;   /* 1 - busiest rank's time in actions / makespan      */
} pst_step_report;

/*
 * Of copies side by side, copy d takes the sequences behind those of copy d - 1: its
 * share of B, rounded by the largest remainders and then the lower d, but at least one
 * for each of its microbatches. Microbatch i of its m takes ceil or floor of an m-th of
 * them, the larger first (8 in 3: 3, 3, 2), and weighs by its valid labels. A list with
 * k slices cuts each sequence into k runs of ceil or floor of T / k tokens, the larger
 * first; evaluation and generation run whole sequences.
 *
 * Errors: PST_EINVAL: more stages than layers, more microbatches than sequences, ...;
 *         and those of pst_pipeline_create, pst_pipeline_load, pst_blas_check.
 */
PST_API pst_status pst_trainer_create(const pst_env *env,
                                      const pst_trainer_options *options,
                                      pst_trainer **out, pst_error *err);
PST_API void pst_trainer_destroy(pst_trainer *trainer);

/*
 * One optimizer step on inputs and labels (B, T); a label below 0 counts for nothing.
 * With a list that has STEPs (asynchronous kinds) it is one list, with as many updates;
 * the loss is then of all of it, and the norm of the last update.
 * Errors: PST_EINVAL (an id not below V, with its place), PST_ENUMERIC (loss or
 *         gradient not finite: the first tensor is named, no weight has changed),
 *         and the pipeline's.
 */
PST_API pst_status pst_trainer_step(pst_trainer *trainer, const int32_t *inputs,
                                    const int32_t *labels, pst_step_report *report,
                                    pst_error *err);

/* As step without the optimizer: gradients stay readable. PST_EINVAL where the list has
 * STEPs. */
PST_API pst_status pst_trainer_gradient(pst_trainer *trainer, const int32_t *inputs,
                                        const int32_t *labels, pst_step_report *report,
                                        pst_error *err);

/* Sum of losses over the valid labels of `sequences` windows (any number), forward
 * only. */
PST_API pst_status pst_trainer_evaluate(pst_trainer *trainer, size_t sequences,
                                        const int32_t *inputs, const int32_t *labels,
                                        double *loss_sum, int64_t *tokens,
                                        pst_error *err);

/* Logits (sequences, T, V) of `sequences` <= B windows, forward only. */
PST_API pst_status pst_trainer_logits(pst_trainer *trainer, int sequences,
                                      const int32_t *inputs, float *logits,
                                      pst_error *err);

/*
 * Append `count` sampled tokens to tokens[0 .. prompt - 1] (room for prompt + count).
 * Each sees at most the last T. temperature 0: the likeliest. Same seed, same text.
 */
PST_API pst_status pst_trainer_generate(pst_trainer *trainer, int32_t *tokens,
                                        size_t prompt, size_t count, double temperature,
                                        uint64_t seed, pst_error *err);

/*
 * All parameters in canonical order, each once (the head's copy of a tied wte is not
 * listed). Borrowed; data points at the weights, valid until destroy, to be read or
 * written between calls. After writing call pst_trainer_refresh().
 */
PST_API const pst_tensor *pst_trainer_weights(const pst_trainer *trainer,
                                              size_t *count);
/* The same order and names, data pointing at gradients of the last step. */
PST_API const pst_tensor *pst_trainer_gradients(const pst_trainer *trainer,
                                                size_t *count);
/* Bring copies of tied weights in line after weights were written. Errors: PST_EPEER.
 */
PST_API pst_status pst_trainer_refresh(pst_trainer *trainer, pst_error *err);

/*
 * Set the weights from a safetensors file with Hugging Face names (with or without a
 * leading "transformer."; mask buffers are ignored; lm_head.weight may repeat a tied
 * wte). Missing, extra and wrongly shaped tensors are all named in one sentence.
 */
PST_API pst_status pst_trainer_load_weights(pst_trainer *trainer, const char *path,
                                            pst_error *err);

/* Save to, and resume from, a folder: checkpoint.h. Resume sets the step. */
PST_API pst_status pst_trainer_save(pst_trainer *trainer, const char *dir,
                                    pst_error *err);
/*
 * The same while training goes on, from a copy of the state: begin, then poll after
 * each step, and finish before the next begin and at the end; pst_checkpoint_begin()
 * and so on say the rest. Each tells of an error of the save under way; save, too, ends
 * that first. pst_trainer_destroy() waits for it. Poll and finish do nothing where
 * there is none.
 */
PST_API pst_status pst_trainer_save_begin(pst_trainer *trainer, const char *dir,
                                          pst_error *err);
PST_API pst_status pst_trainer_save_poll(pst_trainer *trainer, pst_error *err);
PST_API pst_status pst_trainer_save_finish(pst_trainer *trainer, pst_error *err);

PST_API pst_status pst_trainer_resume(pst_trainer *trainer, const char *dir,
                                      pst_error *err);

/* Steps done so far. */
PST_API int64_t pst_trainer_steps(const pst_trainer *trainer);

/* SHA-256 of all weights in canonical order as hex into text (65 bytes); returns text.
 * "" where another process has failed, or there is no memory for its weights. */
PST_API char *pst_trainer_digest(const pst_trainer *trainer, char *text);

/* Ask for an end, as for a signal: all processes learn of it with the next list that
 * they run. Async-signal-safe. */
PST_API void pst_trainer_ask_to_stop(pst_trainer *trainer);
/* 1: some process had been asked when the last list ended. */
PST_API int pst_trainer_stops(const pst_trainer *trainer);

/* The pipeline below, for traces and worker places; program 0 is the training list. */
PST_API pst_pipeline *pst_trainer_pipeline(const pst_trainer *trainer);

PST_END_DECLS

#endif
