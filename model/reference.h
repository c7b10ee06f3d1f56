/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reference.h - a model's inputs and expected values, computed by another program.
 *
 * Three JSON files that share a stem, as `pipetrain --check-reference` takes them:
 *     STEM.config.json     the model, with Hugging Face's keys
 *     STEM.tokens.json     {"input_ids": [[...]], "labels": [[...]]}, labels aligned
 *                          with inputs, negative ones ignored
 *     STEM.expected.json   {"loss", "gradient_norm", "adamw": {...}, "losses": [...]}
 * beside STEM.safetensors (weights) and STEM.expected.safetensors (logits, grad.NAME).
 */
#ifndef PENSTOCK_REFERENCE_H
#define PENSTOCK_REFERENCE_H

#include <stdint.h>

#include <penstock/trainer.h>

PST_BEGIN_DECLS

/* Arrays are the reference's own. */
typedef struct pst_reference {
    pst_gpt_config model;
    pst_adamw optimizer; /* of the ten steps; constant rate                    */
    int sequences;
    int length;      /* tokens of a row in the file, at most the context   */
    int32_t *inputs; /* (sequences, context), padded with 0                */
    int32_t *labels; /* padded with ignored labels                         */
    double loss;
    double gradient_norm;
    int steps;
    double *losses; /* [steps] the loss before each step                  */
} pst_reference;

/* Errors: PST_EIO, PST_EFORMAT (file and key), PST_EINVAL (a model that this library
 * does not have, or a switch of it), PST_ENOMEM. */
PST_API pst_status pst_reference_open(const pst_env *env, const char *stem,
                                      pst_reference **out, pst_error *err);

/* NULL allowed. `env` as it was given to open. */
PST_API void pst_reference_close(const pst_env *env, pst_reference *reference);

PST_END_DECLS

#endif
