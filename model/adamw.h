/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adamw.h - AdamW's numbers for a step, and the step on one stage's parameters.
 *
 * Each tensor's sum of squares is taken whole and in one order, and the caller adds
 * them in canonical order, so the global norm does not depend on the stages. Both
 * functions that see arrays work over `team`, which may be NULL.
 */
#ifndef PST_MODEL_ADAMW_H
#define PST_MODEL_ADAMW_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/gpt.h>
#include <penstock/team.h>
#include <penstock/trainer.h>

/* What one step multiplies by; the same on every stage. */
typedef struct pst__adamw_numbers {
    float rate;
    float decay; /* rate times weight decay                                    */
    float clip;  /* gradients are multiplied by it                             */
    float c1;    /* 1 / (1 - beta1^t)                                          */
    float c2;    /* 1 / (1 - beta2^t)                                          */
    float beta1;
    float beta2;
    float epsilon;
    int decay_all;
} pst__adamw_numbers;

/* Fill defaults and check. Errors: PST_EINVAL. */
pst_status pst__adamw_complete(pst_adamw *adamw, pst_error *err);

/* The learning rate of step `step`, from 0. */
double pst__adamw_rate(const pst_adamw *adamw, int64_t step);

/* What gradients of global norm `norm` are multiplied by: at most 1. */
double pst__adamw_clip(const pst_adamw *adamw, double norm);

/* The numbers of step `step` (from 0), before which the weights changed `updates`
 * times, with clip = 1. */
void pst__adamw_numbers_init(pst__adamw_numbers *numbers, const pst_adamw *adamw,
                             int64_t step, int64_t updates);

/* squares[i] = sum of squares of the gradient of parameter i; tied copies are passed
 * over and take no place in squares. */
void pst__adamw_squares(pst_team *team, double *squares,
                        const pst_parameter *parameters, size_t count,
                        const float *gradients);

/* One step of every parameter that has weights: those below weight_floats. */
void pst__adamw_step(pst_team *team, const pst__adamw_numbers *numbers,
                     const pst_parameter *parameters, size_t count, float *weights,
                     const float *gradients, float *m, float *v, size_t weight_floats);

#endif
