/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * block.h - one pre-LN transformer block: forward, backward-input, backward-weight.
 *
 *     x2 = x  + drop(proj(attention(ln_1(x))))
 *     y  = x2 + drop(fc_proj(gelu(fc(ln_2(x2)))))
 *
 * All arrays are float32, row-major, with n = b t rows. Nothing allocates; who has the
 * memory says so in the structs, each of which a function carves from a buffer.
 */
#ifndef PST_MODEL_BLOCK_H
#define PST_MODEL_BLOCK_H

#include <stddef.h>

#include "model/carve.h"
#include "model/gpt_layout.h"
#include "model/layers.h"

/* What every block of a microbatch has in common. */
typedef struct pst__block_shape {
    size_t b; /* sequences                                                     */
    size_t t; /* tokens of each                                                */
    size_t c; /* width                                                         */
    size_t h; /* heads                                                         */
    int tanh_form;
    float epsilon;
    pst_dropout dropout;   /* rate 0: none; `place` is the block's, times 4    */
    pst_sequence sequence; /* of the block; length 0: the t tokens are all     */
    pst_team *team;
    size_t members; /* of the team, at most; scratch is for so many             */
} pst__block_shape;

/* What forward leaves for backward-input alone (saved_for_input). */
typedef struct pst__block_input_part {
    float *mean_1, *rstd_1; /* (n)                                             */
    float *qkv;             /* (n, 3c)                                         */
    float *lse;             /* (b, h, t)                                       */
    float *x2;              /* (n, c)                                          */
    float *mean_2, *rstd_2; /* (n)                                             */
    float *fc;              /* (n, 4c) in front of the gelu                    */
} pst__block_input_part;

/* What forward leaves for backward-weight, and partly for backward-input too. */
typedef struct pst__block_weight_part {
    float *ln_1;      /* (n, c)                                                */
    float *attention; /* (n, c)                                                */
    float *ln_2;      /* (n, c)                                                */
    float *gelu;      /* (n, 4c)                                               */
} pst__block_weight_part;

/* What backward-input leaves for backward-weight (kept). */
typedef struct pst__block_kept {
    float *dy;         /* (n, c) gradient of the block's output; the caller fills it */
    float *dmlp;       /* (n, c) gradient of fc_proj's output; dy where nothing drops */
    float *dfc;        /* (n, 4c)                                                    */
    float *dx2;        /* (n, c)                                                     */
    float *dattention; /* (n, c) gradient of proj's output; dx2 where nothing drops */
    float *dqkv;       /* (n, 3c)                                              */
    float *dln_1, *dln_1_bias, *dln_2, *dln_2_bias; /* (c)                      */
} pst__block_kept;

void pst__block_carve_input_part(pst__block_input_part *part,
                                 const pst__block_shape *shape, pst__carve *carve);
void pst__block_carve_weight_part(pst__block_weight_part *part,
                                  const pst__block_shape *shape, pst__carve *carve);
/* `dy` is carved only where own_dy; else it is NULL, for the caller to set. */
void pst__block_carve_kept(pst__block_kept *kept, const pst__block_shape *shape,
                           int own_dy, pst__carve *carve);

/* Floats that the three functions need as scratch. */
size_t pst__block_scratch(const pst__block_shape *shape);

/* y (n, c) from x (n, c); y may be x2 of the part. `weights` begin with the block's. */
void pst__block_forward(float *y, const float *x, const pst__block_shape *shape,
                        const pst__gpt_layout *layout, const float *weights,
                        const pst__block_input_part *input,
                        const pst__block_weight_part *weight, float *scratch);

/* dx (n, c) from kept->dy. Fills the rest of `kept`. */
void pst__block_backward_input(float *dx, const float *x, const pst__block_shape *shape,
                               const pst__gpt_layout *layout, const float *weights,
                               const pst__block_input_part *input,
                               const pst__block_weight_part *weight,
                               const pst__block_kept *kept, float *scratch);

/* Adds to `gradients`, which begin with the block's. */
void pst__block_backward_weight(float *gradients, const pst__block_shape *shape,
                                const pst__gpt_layout *layout,
                                const pst__block_weight_part *weight,
                                const pst__block_kept *kept, float *scratch);

#endif
