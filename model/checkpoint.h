/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checkpoint.h - a training state in a folder, complete or absent.
 *
 *     DIR/step-00000100/model.safetensors       weights, Hugging Face names
 *     DIR/step-00000100/optimizer.safetensors   m.NAME and v.NAME
 *     DIR/step-00000100/manifest.json           written last: version, step,
 *                                               settings, SHA-256 of every tensor
 *
 * A save writes into DIR/step-N.tmp, makes every file and the folder durable,
 * renames the folder, makes DIR durable, and only then removes all but the two
 * newest. A folder without a manifest that fits it is not a checkpoint.
 */
#ifndef PENSTOCK_CHECKPOINT_H
#define PENSTOCK_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/tensor.h>

PST_BEGIN_DECLS

/* A setting that a resumed run must share: width 128. Both are text. */
typedef struct pst_setting {
    char name[32];
    char value[64];
} pst_setting;

/* What is saved, and what is filled by a load. `data` of the tensors is borrowed. */
typedef struct pst_checkpoint {
    int64_t step;              /* steps done                                  */
    const pst_tensor *weights; /* canonical order                             */
    size_t weight_count;
    const pst_tensor *optimizer; /* names as they stand in the file            */
    size_t optimizer_count;
    const pst_setting *settings;
    size_t setting_count;
} pst_checkpoint;

/* Make `dir` where it is not there and see that files can be made in it, before hours
 * of training end in vain. Errors: PST_EIO. */
PST_API pst_status pst_checkpoint_prepare(const pst_env *env, const char *dir,
                                          pst_error *err);

/* Errors: PST_EIO with the file that could not be written (a full disk, say);
 *         what was in `dir` before is untouched. */
PST_API pst_status pst_checkpoint_save(const pst_env *env, const char *dir,
                                       const pst_checkpoint *state, pst_error *err);

/*
 * Load the newest checkpoint in `dir` that is complete and whose every tensor has
 * its checksum. Each newer one that is not is named in a warning to the log.
 * Tensors must be those of `state` by name and shape; settings must be equal.
 * Their data and *step are written only when all has been found good (into buffers
 * of the same sizes held until then).
 * Errors: PST_EINVAL  a setting differs (both values are named)
 *         PST_EFORMAT nothing complete; names the newest and what is wrong with it
 *         PST_EIO, PST_ENOMEM.
 */
PST_API pst_status pst_checkpoint_load(const pst_env *env, const char *dir,
                                       const pst_checkpoint *state, int64_t *step,
                                       pst_error *err);

PST_END_DECLS

#endif
