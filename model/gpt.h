/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpt.h - a GPT decoder: its configuration, its parameters, its cut into stages.
 *
 * x = wte[id] + wpe[position]; for each block x += proj(attention(ln_1(x))) and
 * x += proj(gelu(fc(ln_2(x)))); logits = ln_f(x) head^T, where head is wte itself
 * (tied) or its own matrix. Source: openai/gpt-2 model.py; names and layouts as in
 * Hugging Face's files (linear weights are [in, out]).
 */
#ifndef PENSTOCK_GPT_H
#define PENSTOCK_GPT_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/error.h>
#include <penstock/tensor.h>

PST_BEGIN_DECLS

typedef enum pst_gelu {
    PST_GELU_EXACT, /* x/2 (1 + erf(x / sqrt 2))                               */
    PST_GELU_TANH   /* GPT-2's approximation                                   */
} pst_gelu;

/* A zero has the default that stands beside it. */
typedef struct pst_gpt_config {
    int layers;     /* L: 4                                                    */
    int heads;      /* H: 4                                                    */
    int width;      /* C: 128                                                  */
    int context;    /* T: 64                                                   */
    int vocabulary; /* V: 256, the bytes                                       */
    int untied;     /* 1: the head has a matrix of its own                     */
    int bias;       /* 1: biases in linear layers and layer norms              */
    pst_gelu gelu;
    float dropout;           /* 0 .. below 1, in embedding, attention, residuals */
    float layernorm_epsilon; /* 1e-5                                           */
} pst_gpt_config;

/* Fill defaults and check. Errors: PST_EINVAL (heads do not divide the width, ...). */
PST_API pst_status pst_gpt_config_complete(pst_gpt_config *config, pst_error *err);

/* One parameter of a stage. */
typedef struct pst_parameter {
    pst_tensor tensor; /* data NULL                                            */
    size_t offset;     /* floats into the stage's weights, gradients, m and v  */
    int decays;        /* weight decay applies: two dimensions or more         */
    int tied_copy;     /* 1: the head's copy of wte.weight; counted nowhere    */
} pst_parameter;

/* Blocks first .. last - 1 of stage `stage` of `stages`: as equal as can be, larger
 * first. */
PST_API void pst_gpt_blocks(const pst_gpt_config *config, int stage, int stages,
                            int *first, int *last);

/*
 * The parameters of one stage in canonical order (wte, wpe, h.0 ..., ln_f, head).
 * Writes up to `capacity` of them and returns how many there are; parameters may be
 * NULL. *floats (may be NULL): length of the stage's weights. Where one stage holds
 * wte and a tied head, the head's copy, listed last, has a gradient of its own but
 * no weights: its offset is *floats.
 */
PST_API size_t pst_gpt_parameters(const pst_gpt_config *config, int stage, int stages,
                                  pst_parameter *parameters, size_t capacity,
                                  size_t *floats);

PST_END_DECLS

#endif
