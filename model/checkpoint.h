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
 *
 * Several processes list the same tensors in the same order, each with the data of
 * those that it holds, and write a file each:
 *
 *     DIR/step-00000100/model-00001-of-00003.safetensors   and so on; a process that
 *     DIR/step-00000100/optimizer-00001-of-00003....       holds none writes none
 *     DIR/step-00000100/model.safetensors.index.json       as Hugging Face has it
 *     DIR/step-00000100/manifest.json                      also: who wrote what
 *
 * DIR may be one folder that all of them see, or one of each host, which they find out;
 * in the latter case each folder has the files of its own processes, and a manifest of
 * all. A load does not depend on how many processes have saved: each reads what it
 * wants, and has the rest sent by one that sees it. Only a host whose folder nobody
 * sees is missed. All processes load the same step, or none.
 *
 * Everything but pst_checkpoint_prepare() is then called by all processes in the same
 * order, and gives all of them the same status. An error of one is everybody's, and
 * says which process it was.
 */
#ifndef PENSTOCK_CHECKPOINT_H
#define PENSTOCK_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>
#include <penstock/error.h>
#include <penstock/tensor.h>
#include <penstock/transport.h>

PST_BEGIN_DECLS

/* A setting that a resumed run must share: width 128. Both are text. */
typedef struct pst_setting {
    char name[32];
    char value[64];
} pst_setting;

/* What is saved, and what is filled by a load. `data` of the tensors is borrowed; NULL:
 * another process holds it. What several hold, the lowest saves. */
typedef struct pst_checkpoint {
    int64_t step;              /* steps done                                  */
    const pst_tensor *weights; /* canonical order                             */
    size_t weight_count;
    const pst_tensor *optimizer; /* names as they stand in the file            */
    size_t optimizer_count;
    const pst_setting *settings;
    size_t setting_count;
    pst_transport *transport; /* NULL: this process alone                     */
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
 * A save while training goes on.
 *
 *     idle --begin--> writing --thread is done--> written --poll or finish--> idle
 *
 * While it writes, a thread of its own works on a copy of the state. One process ends
 * the whole save on that thread; several write their files there, and the rest is done
 * by poll or finish, since all must know that all have written.
 */
typedef struct pst_checkpoint_writer pst_checkpoint_writer;

/*
 * Copy the state and start to write it.
 * Owns:    *writer, made where it is NULL, is the caller's
 *          (pst_checkpoint_writer_destroy), also on errors. The copy is kept for the
 *          next begin, which is of the same processes. `env` of the first call stays,
 *          and its memory is used here only: the thread takes malloc's.
 * Errors:  PST_EINVAL: another save is under way, or no process holds a tensor;
 *          PST_EIO, PST_ENOMEM, PST_ESYSTEM.
 */
PST_API pst_status pst_checkpoint_begin(const pst_env *env, const char *dir,
                                        const pst_checkpoint *state,
                                        pst_checkpoint_writer **writer, pst_error *err);

/* End the save if everything has been written, without waiting for that. *done = 1: no
 * save is under way any more. Errors: those of pst_checkpoint_save(). */
PST_API pst_status pst_checkpoint_poll(pst_checkpoint_writer *writer, int *done,
                                       pst_error *err);

/* Wait for the save and end it. NULL, or no save under way: PST_OK. */
PST_API pst_status pst_checkpoint_finish(pst_checkpoint_writer *writer, pst_error *err);

/* Of this process alone. A save under way is waited for; with several processes it is
 * then not ended, and its folder stays unfinished. NULL allowed. */
PST_API void pst_checkpoint_writer_destroy(pst_checkpoint_writer *writer);

/*
 * Load the newest checkpoint in `dir` that is complete and whose every tensor has
 * its checksum. Each newer one that is not is named in a warning to the log.
 * Tensors must be those of `state` by name and shape; settings must be equal.
 * Their data and *step are written only when all has been found good (into buffers
 * of the same sizes held until then).
 * Errors: PST_EINVAL  a setting differs (both values are named)
 *         PST_EFORMAT nothing complete; names the newest and what is wrong with it
 *         PST_EIO, PST_ENOMEM; PST_EPEER: the transport failed.
 */
PST_API pst_status pst_checkpoint_load(const pst_env *env, const char *dir,
                                       const pst_checkpoint *state, int64_t *step,
                                       pst_error *err);

PST_END_DECLS

#endif
