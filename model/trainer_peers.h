/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trainer_peers.h - what the processes of one trainer tell each other outside lists.
 *
 * Alone, all of it is done without a message. Otherwise each function is one call that
 * all processes make. Errors: PST_EPEER, PST_ENOMEM.
 */
#ifndef PST_MODEL_TRAINER_PEERS_H
#define PST_MODEL_TRAINER_PEERS_H

#include "model/trainer_state.h"

typedef enum pst__memory { PST__OF_WEIGHTS, PST__OF_OPTIMIZER } pst__memory;

/* Room for the numbers; the trainer knows its tensors. */
pst_status pst__trainer_prepare_peers(pst_trainer *trainer, pst_error *err);
void pst__trainer_release_peers(pst_trainer *trainer);

/*
 * After a list, `units` losses of it: losses, squares, what the run took, and who asked
 * for the end, as each process knows its own part of them, are then known to all.
 */
pst_status pst__trainer_share_numbers(pst_trainer *trainer, int units, pst_error *err);

/* The logits of the forward-only list just run, (batch->first, ...). */
pst_status pst__trainer_share_logits(pst_trainer *trainer, pst_error *err);

/* `count` floats of one stage's memory to another's, which hold copies. */
pst_status pst__trainer_copy(pst_trainer *trainer, pst__memory memory, int from_stage,
                             size_t from, int to_stage, size_t to, size_t count,
                             pst_error *err);

/* Weight number i for reading; in `room`, which holds the largest, where it is another
 * process's. */
pst_status pst__trainer_fetch_weight(const pst_trainer *trainer, size_t i, float *room,
                                     const float **data, pst_error *err);

#endif
