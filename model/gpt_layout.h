/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpt_layout.h - where a stage's parameters lie, for the code that computes with them.
 *
 * All offsets count floats into the stage's weights; gradients lie at the same ones.
 * Every parameter starts at a multiple of 16 floats (64 bytes).
 */
#ifndef PST_MODEL_GPT_LAYOUT_H
#define PST_MODEL_GPT_LAYOUT_H

#include <penstock/gpt.h>

/* The parameters of one block, in canonical order. */
enum pst_block_part {
    PST_LN_1_WEIGHT,
    PST_LN_1_BIAS,
    PST_ATTN_WEIGHT,
    PST_ATTN_BIAS,
    PST_ATTN_PROJ_WEIGHT,
    PST_ATTN_PROJ_BIAS,
    PST_LN_2_WEIGHT,
    PST_LN_2_BIAS,
    PST_FC_WEIGHT,
    PST_FC_BIAS,
    PST_FC_PROJ_WEIGHT,
    PST_FC_PROJ_BIAS,
    PST_BLOCK_PARTS
};

/* What the model lacks (a bias), or what stands on another stage. */
#define PST_NOWHERE SIZE_MAX

typedef struct pst__gpt_layout {
    int first; /* blocks first .. last - 1                                     */
    int last;
    size_t wte;
    size_t wpe;
    size_t blocks;       /* of block `first`                                   */
    size_t block_stride; /* from one block to the next                         */
    size_t part[PST_BLOCK_PARTS]; /* from its block's start                    */
    size_t ln_f_weight;
    size_t ln_f_bias;
    size_t head;            /* the matrix that products with the head use        */
    size_t head_gradient;   /* its own even where `head` is wte                  */
    size_t weight_floats;   /* of weights, and of each of the optimizer's moments */
    size_t gradient_floats; /* more than weights where `head` is wte           */
} pst__gpt_layout;

void pst__gpt_layout_init(pst__gpt_layout *layout, const pst_gpt_config *config,
                          int stage, int stages);

/* How a parameter's weights begin, by its name: a constant, or normal numbers. */
typedef struct pst__gpt_initial {
    float constant; /* where deviation is 0                                   */
    float deviation;
} pst__gpt_initial;

pst__gpt_initial pst__gpt_initial_of(const pst_gpt_config *config,
                                     const pst_tensor *tensor);

#endif
