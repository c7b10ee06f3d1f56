/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - keyed messages from one rank to one other.
 *
 * A message is known by direction, receiving stage, microbatch and iteration. The
 * receiver asks for one by its key, in any order; those that come first by another key
 * wait in a table of arrivals. How deep ring and table must be follows from the lists
 * (footprint.h), so a sender never waits.
 *
 * Threads: one sends, one takes.
 */
#ifndef PENSTOCK_STAGES_CHANNEL_H
#define PENSTOCK_STAGES_CHANNEL_H

#include <penstock/env.h>
#include <penstock/error.h>

#include "stages/ring.h"

typedef enum pst_direction {
    PST__FORWARD, /* an activation, to the stage that uses it                  */
    PST__BACKWARD /* the gradient of the receiving stage's output              */
} pst_direction;

typedef struct pst_channel {
    pst_ring ring;
    int sender;
    int receiver;
    /* the receiver's alone: */
    pst_message *arrived;
    uint32_t arrived_count;
    uint32_t arrived_room;
} pst_channel;

typedef enum pst_take { PST__TAKEN, PST__NOT_YET, PST__WRONG } pst_take;

/* "activation for stage 2, microbatch 5" into text; returns text. */
char *pst__message_text(const pst_message *key, char *text, size_t size);

/* Make it at least so deep. Nobody may use it meanwhile; it must be empty. False: no
 * memory, and it is as before. A zeroed channel may be deepened. */
bool pst__channel_deepen(pst_channel *channel, const pst_env *env, uint32_t capacity,
                         uint32_t arrived);
void pst__channel_fini(pst_channel *channel, const pst_env *env);

/* Forget all messages. Nobody may use it meanwhile. */
void pst__channel_reset(pst_channel *channel);

/* False: the ring is full, which is a fault of the footprint. */
bool pst__channel_send(pst_channel *channel, const pst_message *message);

/*
 * The message with key's direction, stage, microbatch and iteration into *message.
 * PST__NOT_YET: it has not come. PST__WRONG: another has come that cannot be right (of
 * another iteration, twice the same key, or more than the lists allow); `err` names
 * both sides.
 */
pst_take pst__channel_take(pst_channel *channel, const pst_message *key,
                           pst_message *message, pst_error *err);

#endif
