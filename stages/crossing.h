/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crossing.h - the channels of a pipeline whose ranks are in two processes.
 *
 * All processes plan all ranks, so the receiver knows from the sender's row which
 * message of a channel comes n-th, and into which slot of its arena it goes: transfers
 * are posted in that order, as soon as the last action that uses the slot's old content
 * has ended. That never keeps a sender from sending: the footprint's clocks prove that
 * the slot is free when the sender begins the action that fills it. What has come is
 * pushed onto the channel's ring by whoever moves the transport, and is taken from it
 * by key as any other message.
 *
 * The sender's callbacks write to one of as many buffers as messages can be under way
 * on the channel; one is used again once the transport has given it back.
 *
 * Threads: `begin` by the caller between phases; the others by the worker of the rank
 * that is here.
 */
#ifndef PENSTOCK_STAGES_CROSSING_H
#define PENSTOCK_STAGES_CROSSING_H

#include "stages/engine.h"

/* Does the worker of this rank belong to this process? */
static inline bool pst__is_here(const pst_pipeline *p, int rank)
{
    return !p->process_of_rank ||
           p->process_of_rank[rank] == p->options.transport->process;
}

/* The program's channels with one end elsewhere, and what comes in over them.
 * Errors: PST_ENOMEM. */
pst_status pst__crossings_open(pst_pipeline *pipeline, pst_program *program,
                               pst_error *err);
void pst__crossings_release(pst_program *program, const pst_env *env);

/* A run of pipeline->run.program is about to start. */
void pst__crossings_begin(pst_pipeline *pipeline);

/* The worker is about to do its action number `position`: be ready for all messages
 * that there is room for from now on. */
void pst__crossings_post(pst_worker *worker, uint32_t position);

/* Where to write the next message, NULL where it has no bytes. False: the run ends. */
bool pst__crossing_claim(pst_worker *worker, pst_crossing *crossing, void **place);

/* Send what stands there; message->data is not used. */
void pst__crossing_send(pst_crossing *crossing, const pst_message *message);

/* Wait for all transfers, and give all back. */
void pst__crossings_close(pst_pipeline *pipeline);

#endif
