/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adamw.c - the rate of each step, and AdamW on the parameters of a stage.
 *
 * Source: Loshchilov and Hutter 2019; torch.optim.AdamW and clip_grad_norm_. As in
 * PyTorch epsilon stands outside the bias-corrected root, and decay uses the old
 * weight. Warm-up is (s + 1) / warmup, which reaches lr at step warmup - 1 (llm.c's;
 * nanoGPT divides by warmup + 1).
 */
#include <math.h>

#include "model/adamw.h"
#include "model/kernels.h"

/* torch.nn.utils.clip_grad_norm_'s guard against a norm of 0. */
#define CLIP_GUARD 1e-6

static pst_status check_beta(const char *name, double beta, pst_error *err)
{
    if (beta > 0.0 && beta < 1.0)
        return PST_OK;
    return pst_error_set(err, PST_EINVAL, "%s %g; it must be above 0 and below 1", name,
                         beta);
}

static pst_status check_not_negative(const char *name, double value, pst_error *err)
{
    if (value >= 0.0 && isfinite(value))
        return PST_OK;
    return pst_error_set(err, PST_EINVAL, "%s %g; it must be 0 or more", name, value);
}

pst_status pst__adamw_complete(pst_adamw *adamw, pst_error *err)
{
    pst_adamw a = *adamw;
    if (a.lr == 0.0)
        a.lr = 1e-3;
    if (a.min_lr < 0.0)
        a.min_lr = a.lr / 10.0;
    if (a.beta1 == 0.0)
        a.beta1 = 0.9;
    if (a.beta2 == 0.0)
        a.beta2 = 0.99;
    if (a.epsilon == 0.0)
        a.epsilon = 1e-8;

    pst_status status;
    if ((status = check_not_negative("learning rate", a.lr, err)) != PST_OK ||
        (status = check_not_negative("minimal learning rate", a.min_lr, err)) !=
            PST_OK ||
        (status = check_beta("beta1", a.beta1, err)) != PST_OK ||
        (status = check_beta("beta2", a.beta2, err)) != PST_OK ||
        (status = check_not_negative("epsilon", a.epsilon, err)) != PST_OK ||
        (status = check_not_negative("weight decay", a.weight_decay, err)) != PST_OK ||
        (status = check_not_negative("clip", a.clip, err)) != PST_OK ||
        (status = check_not_negative("warm-up", (double)a.warmup, err)) != PST_OK ||
        (status = check_not_negative("steps", (double)a.steps, err)) != PST_OK)
        return status;
    *adamw = a;
    return PST_OK;
}

double pst__adamw_rate(const pst_adamw *adamw, int64_t step)
{
    if (step < adamw->warmup)
        return adamw->lr * (double)(step + 1) / (double)adamw->warmup;
    if (adamw->steps == 0)
        return adamw->lr;
    if (step >= adamw->steps)
        return adamw->min_lr;
    const double pi = 3.14159265358979323846;
    double part =
        (double)(step - adamw->warmup) / (double)(adamw->steps - adamw->warmup);
    return adamw->min_lr + 0.5 * (1.0 + cos(pi * part)) * (adamw->lr - adamw->min_lr);
}

double pst__adamw_clip(const pst_adamw *adamw, double norm)
{
    if (adamw->clip == 0.0)
        return 1.0;
    double factor = adamw->clip / (norm + CLIP_GUARD);
    return factor < 1.0 ? factor : 1.0;
}

void pst__adamw_numbers_init(pst__adamw_numbers *numbers, const pst_adamw *adamw,
                             int64_t step, int64_t updates)
{
    double t = (double)(updates + 1);
    double rate = pst__adamw_rate(adamw, step);
    numbers->rate = (float)rate;
    numbers->decay = (float)(rate * adamw->weight_decay);
    numbers->clip = 1.0f;
    numbers->c1 = (float)(1.0 / (1.0 - pow(adamw->beta1, t)));
    numbers->c2 = (float)(1.0 / (1.0 - pow(adamw->beta2, t)));
    numbers->beta1 = (float)adamw->beta1;
    numbers->beta2 = (float)adamw->beta2;
    numbers->epsilon = (float)adamw->epsilon;
    numbers->decay_all = adamw->decay_all;
}

void pst__adamw_squares(double *squares, const pst_parameter *parameters, size_t count,
                        const float *gradients)
{
    const pst_kernels *k = pst__kernels();
    for (size_t i = 0; i < count; i++) {
        const pst_parameter *p = &parameters[i];
        if (!p->tied_copy)
            *squares++ = k->sum_squares(gradients + p->offset, p->tensor.count);
    }
}

void pst__adamw_step(const pst__adamw_numbers *numbers, const pst_parameter *parameters,
                     size_t count, float *weights, const float *gradients, float *m,
                     float *v, size_t weight_floats)
{
    const pst_kernels *k = pst__kernels();
    for (size_t i = 0; i < count; i++) {
        const pst_parameter *p = &parameters[i];
        if (p->offset >= weight_floats)
            continue;
        float decay = p->decays || numbers->decay_all ? numbers->decay : 0.0f;
        k->adamw(weights + p->offset, gradients + p->offset, m + p->offset,
                 v + p->offset, p->tensor.count, numbers->clip, numbers->rate, decay,
                 numbers->beta1, numbers->beta2, numbers->c1, numbers->c2,
                 numbers->epsilon);
    }
}
