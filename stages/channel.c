/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c - finding messages by key. */
#include "stages/channel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

char *pst__message_text(const pst_message *key, char *text, size_t size)
{
    snprintf(text, size, "%s stage %d, microbatch %" PRIu32,
             key->direction == PST__FORWARD ? "the activation for" : "the gradient for",
             (int)key->stage, key->microbatch);
    return text;
}

bool pst__channel_deepen(pst_channel *channel, const pst_env *env, uint32_t capacity,
                         uint32_t arrived)
{
    if (arrived > channel->arrived_room) {
        pst_message *room = pst_allocate_array(env, arrived, sizeof *room);
        if (!room)
            return false;
        pst_release(env, channel->arrived);
        channel->arrived = room;
        channel->arrived_room = arrived;
    }
    if (capacity > channel->ring.capacity) {
        pst_ring deeper;
        memset(&deeper, 0, sizeof deeper);
        if (!pst__ring_init(&deeper, env, capacity))
            return false;
        pst__ring_fini(&channel->ring, env);
        channel->ring.capacity = deeper.capacity;
        channel->ring.mask = deeper.mask;
        channel->ring.slot = deeper.slot;
        pst__ring_reset(&channel->ring, 0);
    }
    return true;
}

void pst__channel_fini(pst_channel *channel, const pst_env *env)
{
    pst__ring_fini(&channel->ring, env);
    pst_release(env, channel->arrived);
    channel->arrived = NULL;
}

void pst__channel_reset(pst_channel *channel)
{
    pst__ring_clear(&channel->ring);
    channel->arrived_count = 0;
}

bool pst__channel_send(pst_channel *channel, const pst_message *message)
{
    return pst__ring_push(&channel->ring, message);
}

static bool same_key(const pst_message *a, const pst_message *b)
{
    return a->microbatch == b->microbatch && a->stage == b->stage &&
           a->direction == b->direction && a->iteration == b->iteration;
}

static pst_message *find_arrived(pst_channel *channel, const pst_message *key)
{
    for (uint32_t i = 0; i < channel->arrived_count; i++)
        if (same_key(&channel->arrived[i], key))
            return &channel->arrived[i];
    return NULL;
}

static pst_take refuse(const pst_channel *channel, const pst_message *key,
                       const pst_message *found, const char *why, pst_error *err)
{
    char wanted[80];
    char got[80];
    pst_error_set(err, PST_ESCHEDULE,
                  "rank %d waits for %s of iteration %" PRId64
                  " and rank %d sent %s of iteration %" PRId64 ", %s",
                  channel->receiver, pst__message_text(key, wanted, sizeof wanted),
                  key->iteration, channel->sender,
                  pst__message_text(found, got, sizeof got), found->iteration, why);
    return PST__WRONG;
}

pst_take pst__channel_take(pst_channel *channel, const pst_message *key,
                           pst_message *message, pst_error *err)
{
    if (channel->arrived_count > 0) {
        pst_message *arrived = find_arrived(channel, key);
        if (arrived) {
            *message = *arrived;
            *arrived = channel->arrived[--channel->arrived_count];
            return PST__TAKEN;
        }
    }
    pst_message next;
    while (pst__ring_pop(&channel->ring, &next)) {
        if (same_key(&next, key)) {
            *message = next;
            return PST__TAKEN;
        }
        if (next.iteration != key->iteration)
            return refuse(channel, key, &next, "which is another iteration", err);
        if (find_arrived(channel, &next))
            return refuse(channel, key, &next, "which had come before", err);
        if (channel->arrived_count == channel->arrived_room)
            return refuse(channel, key, &next, "which the lists do not allow", err);
        channel->arrived[channel->arrived_count++] = next;
    }
    return PST__NOT_YET;
}
