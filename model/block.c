/* SPDX-License-Identifier: BSD-3-Clause */
/* block.c - the order in which a block's layers run. Source: openai/gpt-2 model.py. */
#include "model/block.h"

#include "model/spread.h"

/* Which dropout of a block: the low two bits of its place. */
enum { DROP_ATTENTION, DROP_PROJECTION, DROP_MLP };

static size_t rows(const pst__block_shape *shape)
{
    return shape->b * shape->t;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void pst__block_carve_input_part(pst__block_input_part *part,
                                 const pst__block_shape *shape, pst__carve *carve)
{
    const size_t n = rows(shape);
    part->mean_1 = pst__carve_take(carve, n);
    part->rstd_1 = pst__carve_take(carve, n);
    part->qkv = pst__carve_take(carve, 3 * n * shape->c);
    part->lse = pst__carve_take(carve, n * shape->h);
    part->x2 = pst__carve_take(carve, n * shape->c);
    part->mean_2 = pst__carve_take(carve, n);
    part->rstd_2 = pst__carve_take(carve, n);
    part->fc = pst__carve_take(carve, 4 * n * shape->c);
}

void pst__block_carve_weight_part(pst__block_weight_part *part,
                                  const pst__block_shape *shape, pst__carve *carve)
{
    const size_t n = rows(shape);
    part->ln_1 = pst__carve_take(carve, n * shape->c);
    part->attention = pst__carve_take(carve, n * shape->c);
    part->ln_2 = pst__carve_take(carve, n * shape->c);
    part->gelu = pst__carve_take(carve, 4 * n * shape->c);
}

void pst__block_carve_kept(pst__block_kept *kept, const pst__block_shape *shape,
                           int own_dy, pst__carve *carve)
{
    const size_t n = rows(shape), c = shape->c;
    const int drops = shape->dropout.rate > 0;
    kept->dy = own_dy ? pst__carve_take(carve, n * c) : NULL;
    kept->dmlp = drops ? pst__carve_take(carve, n * c) : kept->dy;
    kept->dfc = pst__carve_take(carve, 4 * n * c);
    kept->dx2 = pst__carve_take(carve, n * c);
    kept->dattention = drops ? pst__carve_take(carve, n * c) : kept->dx2;
    kept->dqkv = pst__carve_take(carve, 3 * n * c);
    kept->dln_1 = pst__carve_take(carve, c);
    kept->dln_1_bias = pst__carve_take(carve, c);
    kept->dln_2 = pst__carve_take(carve, c);
    kept->dln_2_bias = pst__carve_take(carve, c);
}

/* A temporary (n, c), and behind it what the layers themselves need. */
size_t pst__block_scratch(const pst__block_shape *shape)
{
    const size_t c = shape->c;
    size_t inner =
        pst__attention_scratch(shape->t, shape->sequence.length, shape->members);
    inner = larger(inner, pst__linear_scratch(c, 3 * c, shape->members));
    inner = larger(inner, pst__linear_scratch(c, c, shape->members));
    inner = larger(inner, pst__linear_scratch(c, 4 * c, shape->members));
    inner = larger(inner, pst__linear_scratch(4 * c, c, shape->members));
    inner = larger(inner, 4 * c); /* sums of a bias */
    return (rows(shape) * c + 15) / 16 * 16 + inner;
}

static float *inner_scratch(const pst__block_shape *shape, float *scratch)
{
    return scratch + (rows(shape) * shape->c + 15) / 16 * 16;
}

/* A parameter of the block, or NULL. */
static const float *weight_of(const pst__gpt_layout *layout, const float *weights,
                              enum pst_block_part part)
{
    return layout->part[part] == PST_NOWHERE ? NULL : weights + layout->part[part];
}

static pst_dropout dropout_of(const pst__block_shape *shape, uint32_t which)
{
    pst_dropout dropout = shape->dropout;
    dropout.place += which;
    return dropout;
}

static const pst_sequence *sequence_of(const pst__block_shape *shape)
{
    return shape->sequence.length > 0 ? &shape->sequence : NULL;
}

/* y = drop(x) over (n, c); y may be x */
static void drop(float *y, const float *x, const pst__block_shape *shape,
                 uint32_t which)
{
    pst_dropout dropout = dropout_of(shape, which);
    dropout.element = (uint32_t)(shape->sequence.start * shape->c);
    pst__spread_dropout(shape->team, y, x, rows(shape) * shape->c, shape->t * shape->c,
                        &dropout);
}

/* y = x + drop(a + bias); `a` is overwritten */
static void add_branch(float *y, const float *x, float *a, const float *bias,
                       const pst__block_shape *shape, uint32_t which)
{
    if (shape->dropout.rate > 0) {
        if (bias)
            pst__spread_bias(shape->team, a, bias, rows(shape), shape->c);
        drop(a, a, shape, which);
        bias = NULL;
    }
    pst__spread_residual(shape->team, y, x, a, bias, rows(shape), shape->c);
}

void pst__block_forward(float *y, const float *x, const pst__block_shape *shape,
                        const pst__gpt_layout *layout, const float *weights,
                        const pst__block_input_part *input,
                        const pst__block_weight_part *weight, float *scratch)
{
    const size_t n = rows(shape), c = shape->c;
    const pst_dropout dropout = dropout_of(shape, DROP_ATTENTION);
    float *branch = scratch;

    pst__spread_layernorm(shape->team, weight->ln_1, input->mean_1, input->rstd_1, x,
                          weight_of(layout, weights, PST_LN_1_WEIGHT),
                          weight_of(layout, weights, PST_LN_1_BIAS), n, c,
                          shape->epsilon);
    pst__linear_forward(shape->team, input->qkv, weight->ln_1,
                        weight_of(layout, weights, PST_ATTN_WEIGHT),
                        weight_of(layout, weights, PST_ATTN_BIAS), n, c, 3 * c,
                        PST_IN_OUT);
    pst__attention_forward(shape->team, weight->attention, input->lse, input->qkv,
                           shape->b, shape->t, c, shape->h, sequence_of(shape),
                           dropout.rate > 0 ? &dropout : NULL,
                           inner_scratch(shape, scratch));
    pst__linear_forward(shape->team, branch, weight->attention,
                        weight_of(layout, weights, PST_ATTN_PROJ_WEIGHT), NULL, n, c, c,
                        PST_IN_OUT);
    add_branch(input->x2, x, branch, weight_of(layout, weights, PST_ATTN_PROJ_BIAS),
               shape, DROP_PROJECTION);

    pst__spread_layernorm(shape->team, weight->ln_2, input->mean_2, input->rstd_2,
                          input->x2, weight_of(layout, weights, PST_LN_2_WEIGHT),
                          weight_of(layout, weights, PST_LN_2_BIAS), n, c,
                          shape->epsilon);
    pst__linear_forward(
        shape->team, input->fc, weight->ln_2, weight_of(layout, weights, PST_FC_WEIGHT),
        weight_of(layout, weights, PST_FC_BIAS), n, c, 4 * c, PST_IN_OUT);
    pst__spread_gelu(shape->team, weight->gelu, input->fc, 4 * n * c, shape->tanh_form);
    pst__linear_forward(shape->team, branch, weight->gelu,
                        weight_of(layout, weights, PST_FC_PROJ_WEIGHT), NULL, n, 4 * c,
                        c, PST_IN_OUT);
    add_branch(y, input->x2, branch, weight_of(layout, weights, PST_FC_PROJ_BIAS),
               shape, DROP_MLP);
}

/* kept->dx2 from kept->dy: through the MLP. */
static void mlp_backward_input(const pst__block_shape *shape,
                               const pst__gpt_layout *layout, const float *weights,
                               const pst__block_input_part *input,
                               const pst__block_kept *kept, float *temporary)
{
    const pst_kernels *k = pst__kernels();
    const size_t n = rows(shape), c = shape->c;
    if (shape->dropout.rate > 0)
        drop(kept->dmlp, kept->dy, shape, DROP_MLP);
    pst__linear_backward_input(shape->team, kept->dfc, kept->dmlp,
                               weight_of(layout, weights, PST_FC_PROJ_WEIGHT), n, 4 * c,
                               c, PST_IN_OUT, 0);
    pst__spread_gelu_backward(shape->team, kept->dfc, kept->dfc, input->fc, 4 * n * c,
                              shape->tanh_form);
    pst__linear_backward_input(shape->team, temporary, kept->dfc,
                               weight_of(layout, weights, PST_FC_WEIGHT), n, c, 4 * c,
                               PST_IN_OUT, 0);
    k->layernorm_backward(kept->dx2, kept->dln_2, kept->dln_2_bias, kept->dy, temporary,
                          input->x2, input->mean_2, input->rstd_2,
                          weight_of(layout, weights, PST_LN_2_WEIGHT), n, c);
}

void pst__block_backward_input(float *dx, const float *x, const pst__block_shape *shape,
                               const pst__gpt_layout *layout, const float *weights,
                               const pst__block_input_part *input,
                               const pst__block_weight_part *weight,
                               const pst__block_kept *kept, float *scratch)
{
    const pst_kernels *k = pst__kernels();
    const size_t n = rows(shape), c = shape->c;
    const pst_dropout dropout = dropout_of(shape, DROP_ATTENTION);
    float *temporary = scratch;

    mlp_backward_input(shape, layout, weights, input, kept, temporary);
    if (shape->dropout.rate > 0)
        drop(kept->dattention, kept->dx2, shape, DROP_PROJECTION);
    pst__linear_backward_input(shape->team, temporary, kept->dattention,
                               weight_of(layout, weights, PST_ATTN_PROJ_WEIGHT), n, c,
                               c, PST_IN_OUT, 0);
    pst__attention_backward_input(
        shape->team, kept->dqkv, temporary, input->qkv, weight->attention, input->lse,
        shape->b, shape->t, c, shape->h, sequence_of(shape),
        dropout.rate > 0 ? &dropout : NULL, inner_scratch(shape, scratch));
    pst__linear_backward_input(shape->team, temporary, kept->dqkv,
                               weight_of(layout, weights, PST_ATTN_WEIGHT), n, c, 3 * c,
                               PST_IN_OUT, 0);
    k->layernorm_backward(dx, kept->dln_1, kept->dln_1_bias, kept->dx2, temporary, x,
                          input->mean_1, input->rstd_1,
                          weight_of(layout, weights, PST_LN_1_WEIGHT), n, c);
}

/* gradients of a bias += column sums of dy, where there is one */
static void bias_backward(float *gradients, const pst__gpt_layout *layout,
                          enum pst_block_part part, const float *dy, size_t n, size_t c,
                          float *scratch)
{
    const pst_kernels *k = pst__kernels();
    if (layout->part[part] == PST_NOWHERE)
        return;
    k->column_sum(scratch, dy, n, c);
    k->add(gradients + layout->part[part], scratch, c);
}

static void add_norm(float *gradients, const pst__gpt_layout *layout,
                     enum pst_block_part part, const float *sum, size_t c)
{
    if (layout->part[part] != PST_NOWHERE)
        pst__kernels()->add(gradients + layout->part[part], sum, c);
}

void pst__block_backward_weight(float *gradients, const pst__block_shape *shape,
                                const pst__gpt_layout *layout,
                                const pst__block_weight_part *weight,
                                const pst__block_kept *kept, float *scratch)
{
    const size_t n = rows(shape), c = shape->c;
    float *inner = inner_scratch(shape, scratch);
    const struct {
        enum pst_block_part weight, bias;
        const float *x, *dy;
        size_t in, out;
    } linear[] = {
        {PST_ATTN_WEIGHT, PST_ATTN_BIAS, weight->ln_1, kept->dqkv, c, 3 * c},
        {PST_ATTN_PROJ_WEIGHT, PST_ATTN_PROJ_BIAS, weight->attention, kept->dattention,
         c, c},
        {PST_FC_WEIGHT, PST_FC_BIAS, weight->ln_2, kept->dfc, c, 4 * c},
        {PST_FC_PROJ_WEIGHT, PST_FC_PROJ_BIAS, weight->gelu, kept->dmlp, 4 * c, c},
    };
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        pst__linear_backward_weight(
            shape->team, gradients + layout->part[linear[i].weight], linear[i].x,
            linear[i].dy, n, linear[i].in, linear[i].out, PST_IN_OUT, inner);
        bias_backward(gradients, layout, linear[i].bias, linear[i].dy, n, linear[i].out,
                      inner);
    }
    add_norm(gradients, layout, PST_LN_1_WEIGHT, kept->dln_1, c);
    add_norm(gradients, layout, PST_LN_1_BIAS, kept->dln_1_bias, c);
    add_norm(gradients, layout, PST_LN_2_WEIGHT, kept->dln_2, c);
    add_norm(gradients, layout, PST_LN_2_BIAS, kept->dln_2_bias, c);
}
