/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finite.h - the first callback out of which a NaN or an infinity comes.
 *
 * For stages whose buffers hold floats. Each callback is followed by a look at all it
 * made: F at its output, I at its input gradient, W at the gradients so far. One that
 * is not finite fails the callback with PST_ENUMERIC, so that the run ends and its
 * error names stage, microbatch and operation. Cost: a pass over those buffers.
 */
#ifndef PENSTOCK_FINITE_H
#define PENSTOCK_FINITE_H

#include <penstock/env.h>
#include <penstock/stage.h>

PST_BEGIN_DECLS

typedef struct pst_finite pst_finite;

/*
 * Put the look around the callbacks of stages[stage_count].
 * Owns:   *out is the caller's, and must outlive the pipeline made of `stages`.
 * Errors: PST_ENOMEM; `stages` is then as before.
 */
PST_API pst_status pst_finite_create(const pst_env *env, pst_stage *stages,
                                     int stage_count, pst_finite **out, pst_error *err);

/* NULL allowed. */
PST_API void pst_finite_destroy(pst_finite *finite);

PST_END_DECLS

#endif
