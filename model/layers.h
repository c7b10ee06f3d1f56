/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layers.h - the layers of a transformer: products by BLAS, the rest by kernels.h.
 *
 * Float32, row-major; n tokens. Backward is in two parts: *_backward_input (I) and
 * *_backward_weight (W). Whatever adds to a parameter's gradient does so with one
 * addition an element, g = g + c, where c does not depend on g, so that a sum over
 * microbatches has the same bits however their contributions were buffered.
 * Nothing allocates; `scratch` is the caller's, of the size that the _scratch function
 * gives in floats. Work goes over `team`, which may be NULL; what it is cut into
 * follows from shapes alone, so no bit depends on the team.
 */
#ifndef PST_MODEL_LAYERS_H
#define PST_MODEL_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/team.h>

#include "model/kernels.h"

/* How a weight lies in memory. */
typedef enum pst_layout {
    PST_IN_OUT, /* w (in, out): Hugging Face's Conv1D                          */
    PST_OUT_IN  /* w (out, in): an embedding used as a head                    */
} pst_layout;

/* y (n,out) = x (n,in) w [+ bias (out), or NULL] */
void pst__linear_forward(pst_team *team, float *y, const float *x, const float *w,
                         const float *bias, size_t n, size_t in, size_t out,
                         pst_layout layout);
/* dx (n,in) = dy (n,out) w^T; add != 0: dx += instead of = */
void pst__linear_backward_input(pst_team *team, float *dx, const float *dy,
                                const float *w, size_t n, size_t in, size_t out,
                                pst_layout layout, int add);
/* dw += x^T dy, by blocks of fixed shape through scratch */
void pst__linear_backward_weight(pst_team *team, float *dw, const float *x,
                                 const float *dy, size_t n, size_t in, size_t out,
                                 pst_layout layout, float *scratch);
/* For a team of `members`. */
size_t pst__linear_scratch(size_t in, size_t out, size_t members);

/* y (b,t,c) = wte (v,c)[ids (b,t)] + wpe (t,c) */
void pst__embedding_forward(float *y, const float *wte, const float *wpe,
                            const int32_t *ids, size_t b, size_t t, size_t c);
/* dwte[id] += sum of dy over the tokens with that id; dwpe[p] += sum over sequences */
void pst__embedding_backward_weight(float *dwte, float *dwpe, const float *dy,
                                    const int32_t *ids, size_t b, size_t t, size_t c,
                                    size_t v, float *scratch);
size_t pst__embedding_scratch(size_t b, size_t t, size_t c, size_t v);

/*
 * Sequences of `length` tokens that are cut into slices, of which one is at work: its
 * tokens are start .. start + t - 1. What all slices share of one layer: kv
 * (b,length,2c) is k and v blocks of c columns of every token so far; dkv, laid out as
 * kv, gradients. Forwards go from the first slice to the last, and each adds its rows
 * to kv. Backwards go from the last, which sets dkv to 0, to the first; each adds to
 * the rows it sees, and then those of its own are complete.
 */
typedef struct pst_sequence {
    float *kv;
    float *dkv;
    size_t start;
    size_t length;
} pst_sequence;

/*
 * Causal attention of h heads. qkv (b,t,3c): q, k, v blocks of c columns, heads-major.
 * y (b,t,c); lse (b,h,t) saved for backward. Probabilities are not kept: backward makes
 * them again. sequence may be NULL: the t tokens are all; dropout may be NULL.
 */
void pst__attention_forward(pst_team *team, float *y, float *lse, const float *qkv,
                            size_t b, size_t t, size_t c, size_t h,
                            const pst_sequence *sequence, const pst_dropout *dropout,
                            float *scratch);
/* dqkv (b,t,3c) from dy (b,t,c); y and lse as forward left them */
void pst__attention_backward_input(pst_team *team, float *dqkv, const float *dy,
                                   const float *qkv, const float *y, const float *lse,
                                   size_t b, size_t t, size_t c, size_t h,
                                   const pst_sequence *sequence,
                                   const pst_dropout *dropout, float *scratch);
/* For up to t tokens, of a sequence of `length` where they are a slice, else 0; and a
 * team of `members`. */
size_t pst__attention_scratch(size_t t, size_t length, size_t members);

#endif
