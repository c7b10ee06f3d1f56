/* SPDX-License-Identifier: BSD-3-Clause */
/* scenarios_ring.c - a ring alone, between one thread that pushes and one that pops. */
#include "tests/stages/explore/atomic.h"

#include "stages/ring.h"
#include "tests/stages/explore/scenarios.h"

enum { MOST_ITEMS = 8 };

/* Counters start two before they wrap. */
static const uint32_t near_wrap = UINT32_MAX - 1;

typedef struct ring_play {
    pst_ring ring;
    uint32_t items;
    uint32_t taken;
    uint32_t payload[MOST_ITEMS];
} ring_play;

static ring_play *play;

static void *push_all(void *argument)
{
    for (uint32_t i = 0; i < play->items; i++) {
        play->payload[i] = 100 + i;
        const pst_message message = {.microbatch = i, .data = &play->payload[i]};
        while (!pst__ring_push(&play->ring, &message))
            explore_retry();
    }
    return argument;
}

static void *pop_all(void *argument)
{
    pst_message message;
    for (; play->taken < play->items; play->taken++) {
        while (!pst__ring_pop(&play->ring, &message))
            explore_retry();
        if (message.microbatch != play->taken)
            explore_fail("message %u comes as number %u", message.microbatch,
                         play->taken);
        const uint32_t payload = *(const uint32_t *)message.data;
        if (payload != 100 + play->taken)
            explore_fail("message %u holds %u", play->taken, payload);
    }
    return argument;
}

static void play_ring(uint32_t capacity, uint32_t items)
{
    play = pst_allocate(&explore_env, sizeof *play);
    play->items = items;
    pst__ring_init(&play->ring, &explore_env, capacity);
    pst__ring_reset(&play->ring, near_wrap);
    explore_start(push_all, NULL);
    explore_start(pop_all, NULL);
}

static void check_ring(void)
{
    if (play->taken != play->items || !pst__ring_is_empty(&play->ring) ||
        !pst__ring_check(&play->ring))
        explore_fail("%u of %u were taken, and the ring is not as it should be",
                     play->taken, play->items);
}

static void ring_1_2(void)
{
    play_ring(1, 2);
}

static void ring_1_3(void)
{
    play_ring(1, 3);
}

static void ring_2_3(void)
{
    play_ring(2, 3);
}

static void ring_3_4(void)
{
    play_ring(3, 4);
}

static void ring_2_6(void)
{
    play_ring(2, 6);
}

static const explore_scenario scenarios[] = {
    {"ring of 1, 2 messages", ring_1_2, check_ring, 0, EXPLORE_SMALL},
    {"ring of 1, 3 messages", ring_1_3, check_ring, 0, EXPLORE_SMALL},
    {"ring of 2, 3 messages", ring_2_3, check_ring, 0, EXPLORE_SMALL},
    {"ring of 3, 4 messages", ring_3_4, check_ring, 0, EXPLORE_SMALL},
    {"ring of 2, 6 messages", ring_2_6, check_ring, 0, EXPLORE_LARGE},
};

explore_scenarios explore_ring_scenarios(void)
{
    return (explore_scenarios){scenarios, sizeof scenarios / sizeof *scenarios};
}
