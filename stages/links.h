/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - messages between ranks while lists are walked: clocks, depths of rings.
 *
 * Part of footprint.c's walk. A message in flight holds a copy of its sender's clock
 * until it is received.
 */
#ifndef PENSTOCK_STAGES_LINKS_H
#define PENSTOCK_STAGES_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>

#include "stages/slots.h"

/* Messages from one rank to one other. */
typedef struct pst_link {
    int sender;
    int receiver;
    uint32_t capacity; /* most messages that can be pushed and not popped      */
    uint32_t arrived;  /* most that are popped before they are asked for       */
} pst_link;

typedef struct pst_links pst_links;

/* NULL: no memory. */
pst_links *pst__links_create(const pst_env *env, int ranks);
void pst__links_destroy(pst_links *links);

/* How many actions of `other` have certainly ended when the next of `rank` starts. */
uint32_t pst__links_ended(const pst_links *links, int rank, int other);

/* The rank's own clock: one more of its actions has ended. */
void pst__links_end_action(pst_links *links, int rank);

/* `sender`, which has ended its action, sends. Numbers of the link and of the message
 * in flight go to *link and *message. False: no memory. */
bool pst__links_send(pst_links *links, int sender, int receiver, uint32_t *link,
                     uint32_t *message);

/* The message's receiver takes it in front of its next action; returns the link. False
 * into *ok: no memory. */
uint32_t pst__links_receive(pst_links *links, uint32_t message, bool *ok);

/* All links found; the caller owns the array from now on. */
pst_link *pst__links_take_all(pst_links *links, uint32_t *count);

#endif
