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
#include "model/cut.h"
#include "model/kernels.h"

/* torch.nn.utils.clip_grad_norm_'s guard against a norm of 0. */
#define CLIP_GUARD 1e-6

/* Floats of a piece of a parameter, at least. */
enum { PIECE = 32 * 1024 };

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

/* What is done to each parameter; a part of the work is one, or a piece of one. */
typedef struct update {
    const pst__adamw_numbers *numbers;
    const pst_parameter *parameters;
    const float *gradients;
    double *squares;
    float *weights, *m, *v;
    const pst_parameter *present;
    size_t parts; /* of the present one                                         */
} update;

static void square_parameter(void *user, int part, int member)
{
    const update *u = user;
    const pst_parameter *p = &u->parameters[part];
    double *square = u->squares;
    (void)member;
    if (p->tied_copy)
        return;
    for (int before = 0; before < part; before++)
        square += !u->parameters[before].tied_copy;
    *square = pst__kernels()->sum_squares(u->gradients + p->offset, p->tensor.count);
}

void pst__adamw_squares(pst_team *team, double *squares,
                        const pst_parameter *parameters, size_t count,
                        const float *gradients)
{
    update u = {.parameters = parameters, .gradients = gradients, .squares = squares};
    pst_team_run(team, (int)count, square_parameter, &u);
}

static void step_piece(void *user, int part, int member)
{
    const update *u = user;
    const pst_parameter *p = u->present;
    const pst__adamw_numbers *n = u->numbers;
    const size_t count = p->tensor.count;
    const size_t first = pst__cut_start(count, u->parts, (size_t)part);
    const size_t at = p->offset + first;
    (void)member;
    pst__kernels()->adamw(u->weights + at, u->gradients + at, u->m + at, u->v + at,
                          pst__cut_start(count, u->parts, (size_t)part + 1) - first,
                          n->clip, n->rate, p->decays || n->decay_all ? n->decay : 0.0f,
                          n->beta1, n->beta2, n->c1, n->c2, n->epsilon);
}

void pst__adamw_step(pst_team *team, const pst__adamw_numbers *numbers,
                     const pst_parameter *parameters, size_t count, float *weights,
                     const float *gradients, float *m, float *v, size_t weight_floats)
{
    update u = {
        .numbers = numbers, .gradients = gradients, .weights = weights, .m = m, .v = v};
    for (size_t i = 0; i < count; i++) {
        u.present = &parameters[i];
        if (u.present->offset >= weight_floats)
            continue;
        u.parts = pst__cut_parts(u.present->tensor.count, PIECE);
        pst_team_run(team, (int)u.parts, step_piece, &u);
    }
}
