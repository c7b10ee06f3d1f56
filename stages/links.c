/* SPDX-License-Identifier: BSD-3-Clause */
/* links.c - vector clocks, and how deep each ring and table of arrivals must be. */
#include "stages/links.h"

#include <string.h>

/* The receiver's action number `ended` - 1 had popped `popped` messages when it began.
 */
typedef struct pop_mark {
    uint32_t ended;
    uint32_t popped;
} pop_mark;

/* What a link has seen so far. The receiver pops until it finds what it asks for, so
 * how much it has popped after each of its actions is certain. */
typedef struct link_state {
    uint32_t sent;
    uint32_t popped;
    uint32_t early; /* popped and not yet asked for                            */
    pop_mark *marks;
    uint32_t mark_count;
    uint32_t mark_room;
    uint32_t marks_known; /* to the sender, by its clock                       */
} link_state;

typedef struct flight {
    uint32_t link;
    uint32_t number;    /* 0: the link's first message                         */
    uint32_t next_free; /* where this entry is not in use                      */
} flight;

struct pst_links {
    pst_env env;
    size_t ranks;
    uint32_t *clock;   /* [ranks][ranks]: see pst__links_ended                 */
    uint32_t *link_of; /* [ranks][ranks]: sender, receiver                     */
    pst_link *link;
    link_state *state;
    uint32_t count;
    uint32_t room;
    flight *flights;
    uint32_t *flight_clock; /* [flight_room][ranks]                            */
    uint32_t flight_count;
    uint32_t flight_room;
    uint32_t first_free;
};

pst_links *pst__links_create(const pst_env *env, int ranks)
{
    pst_links *links = pst_allocate(env, sizeof *links);
    if (!links)
        return NULL;
    if (env)
        links->env = *env;
    links->ranks = (size_t)ranks;
    links->first_free = PST__NONE;
    const size_t pairs = links->ranks * links->ranks;
    links->clock = pst_allocate_array(env, pairs, sizeof *links->clock);
    links->link_of = pst_allocate_array(env, pairs, sizeof *links->link_of);
    if (!links->clock || !links->link_of) {
        pst__links_destroy(links);
        return NULL;
    }
    for (size_t i = 0; i < pairs; i++)
        links->link_of[i] = PST__NONE;
    return links;
}

void pst__links_destroy(pst_links *links)
{
    if (!links)
        return;
    const pst_env env = links->env;
    for (uint32_t i = 0; i < links->count; i++)
        pst_release(&env, links->state[i].marks);
    pst_release(&env, links->state);
    pst_release(&env, links->link);
    pst_release(&env, links->flights);
    pst_release(&env, links->flight_clock);
    pst_release(&env, links->clock);
    pst_release(&env, links->link_of);
    pst_release(&env, links);
}

uint32_t pst__links_ended(const pst_links *links, int rank, int other)
{
    return links->clock[(size_t)rank * links->ranks + (size_t)other];
}

void pst__links_end_action(pst_links *links, int rank)
{
    links->clock[(size_t)rank * links->ranks + (size_t)rank]++;
}

/* A copy of *array with room for `more` elements of `size` bytes. */
static bool grow(const pst_env *env, void *array_pointer, size_t room, size_t more,
                 size_t size)
{
    void *old;
    memcpy(&old, array_pointer, sizeof old);
    if (more > SIZE_MAX / size)
        return false;
    void *grown = old ? pst_grow(env, old, room * size, more * size)
                      : pst_allocate_array(env, more, size);
    if (!grown)
        return false;
    memcpy(array_pointer, &grown, sizeof grown);
    return true;
}

static bool find_link(pst_links *links, int sender, int receiver, uint32_t *number)
{
    const size_t pair = (size_t)sender * links->ranks + (size_t)receiver;
    *number = links->link_of[pair];
    if (*number != PST__NONE)
        return true;
    if (links->count == links->room) {
        const uint32_t more = links->room ? 2 * links->room : 16;
        if (!grow(&links->env, &links->link, links->room, more, sizeof *links->link) ||
            !grow(&links->env, &links->state, links->room, more, sizeof *links->state))
            return false;
        links->room = more;
    }
    *number = links->link_of[pair] = links->count++;
    links->link[*number] = (pst_link){.sender = sender, .receiver = receiver};
    links->state[*number] = (link_state){0};
    return true;
}

static bool new_flight(pst_links *links, uint32_t *message)
{
    if (links->first_free != PST__NONE) {
        *message = links->first_free;
        links->first_free = links->flights[*message].next_free;
        return true;
    }
    if (links->flight_count == links->flight_room) {
        const uint32_t room = links->flight_room;
        const uint32_t more = room ? 2 * room : 16;
        if (more < room || links->ranks > SIZE_MAX / sizeof(uint32_t) / more ||
            !grow(&links->env, &links->flights, room, more, sizeof *links->flights) ||
            !grow(&links->env, &links->flight_clock, room, more,
                  links->ranks * sizeof *links->flight_clock))
            return false;
        links->flight_room = more;
    }
    *message = links->flight_count++;
    return true;
}

/* Messages that the sender cannot know to be popped, this one included. */
static uint32_t undelivered(const pst_links *links, uint32_t number)
{
    const pst_link *link = &links->link[number];
    link_state *state = &links->state[number];
    const uint32_t ended = pst__links_ended(links, link->sender, link->receiver);
    while (state->marks_known < state->mark_count &&
           state->marks[state->marks_known].ended <= ended)
        state->marks_known++;
    const uint32_t popped =
        state->marks_known ? state->marks[state->marks_known - 1].popped : 0;
    return state->sent - popped;
}

bool pst__links_send(pst_links *links, int sender, int receiver, uint32_t *link,
                     uint32_t *message)
{
    if (!find_link(links, sender, receiver, link) || !new_flight(links, message))
        return false;
    links->flights[*message] =
        (flight){.link = *link, .number = links->state[*link].sent++};
    memcpy(&links->flight_clock[*message * links->ranks],
           &links->clock[(size_t)sender * links->ranks],
           links->ranks * sizeof *links->clock);
    const uint32_t depth = undelivered(links, *link);
    if (depth > links->link[*link].capacity)
        links->link[*link].capacity = depth;
    return true;
}

uint32_t pst__links_receive(pst_links *links, uint32_t message, bool *ok)
{
    flight *entry = &links->flights[message];
    const uint32_t number = entry->link;
    pst_link *link = &links->link[number];
    link_state *state = &links->state[number];
    uint32_t *clock = &links->clock[(size_t)link->receiver * links->ranks];
    const uint32_t *theirs = &links->flight_clock[message * links->ranks];
    for (size_t rank = 0; rank < links->ranks; rank++)
        if (theirs[rank] > clock[rank])
            clock[rank] = theirs[rank];

    *ok = true;
    if (entry->number < state->popped) {
        state->early--;
    } else {
        state->early += entry->number - state->popped;
        if (state->early > link->arrived)
            link->arrived = state->early;
        state->popped = entry->number + 1;
        if (state->mark_count == state->mark_room) {
            const uint32_t more = state->mark_room ? 2 * state->mark_room : 16;
            *ok = grow(&links->env, &state->marks, state->mark_room, more,
                       sizeof *state->marks);
            if (!*ok)
                return number;
            state->mark_room = more;
        }
        state->marks[state->mark_count++] =
            (pop_mark){.ended = clock[link->receiver] + 1, .popped = state->popped};
    }
    entry->next_free = links->first_free;
    links->first_free = message;
    return number;
}

pst_link *pst__links_take_all(pst_links *links, uint32_t *count)
{
    pst_link *all = links->link;
    *count = links->count;
    for (uint32_t i = 0; i < links->count; i++)
        pst_release(&links->env, links->state[i].marks);
    links->link = NULL;
    links->count = 0;
    return all;
}
