/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenarios_stream.c - flows, a stream's workers, crews, and streams as a whole.
 *
 * The .c files are included, so that their static functions can be started as threads.
 */
#include "tests/stages/explore/atomic.h"

#include <string.h>

#include "tests/stages/explore/scenarios.h"

#include "stages/crew.c"
#include "stages/stream.c"
#include "stages/stream_worker.c"

enum { MOST_ITEMS = 4 };

/* Counters start two before they wrap. */
static const uint32_t near_wrap = UINT32_MAX - 1;

/* ---- a flow alone ------------------------------------------------------------- */

typedef struct flow_play {
    pst_flow flow;
    pst_doorbell producer;
    pst_doorbell consumer;
    uint64_t items;
    uint64_t taken;
    uint32_t payload[MOST_ITEMS];
} flow_play;

static flow_play *play;

static void *push_all(void *argument)
{
    for (uint64_t i = 0; i < play->items; i++) {
        play->payload[i] = 100 + (uint32_t)i;
        while (!pst__flow_has_room(&play->flow))
            explore_retry();
        pst__flow_push(&play->flow,
                       (pst_token){.data = &play->payload[i], .number = i});
    }
    pst__flow_settle_tail(&play->flow);
    return argument;
}

static void take_token(const pst_token *token)
{
    if (token->number != play->taken)
        explore_fail("token %u comes as number %u", (unsigned)token->number,
                     (unsigned)play->taken);
    const uint32_t payload = *(const uint32_t *)token->data;
    if (payload != 100 + play->taken)
        explore_fail("token %u holds %u", (unsigned)play->taken, payload);
    pst__flow_pop(&play->flow);
}

static void *pop_all(void *argument)
{
    for (; play->taken < play->items; play->taken++) {
        const pst_token *token;
        while (!(token = pst__flow_peek(&play->flow)))
            explore_retry();
        take_token(token);
    }
    pst__flow_settle_head(&play->flow);
    return argument;
}

/* Only looks at what was settled, as a consumer does at first. */
static void *pop_batch(void *argument)
{
    for (; play->taken < play->items; play->taken++) {
        while (pst__flow_known(&play->flow) == 0 &&
               pst__flow_look_for_batch(&play->flow) == 0)
            explore_retry();
        take_token(pst__flow_peek(&play->flow));
    }
    return argument;
}

static void play_flow(uint32_t capacity, uint64_t items, void *(*consumer)(void *))
{
    play = pst_allocate(&explore_env, sizeof *play);
    play->items = items;
    pst__flow_init(&play->flow, &explore_env, capacity, &play->producer,
                   &play->consumer);
    pst__flow_reset(&play->flow, near_wrap);
    explore_start(push_all, NULL);
    explore_start(consumer, NULL);
}

static void check_flow(void)
{
    if (play->taken != play->items || pst__flow_peek(&play->flow) ||
        !pst__flow_check(&play->flow))
        explore_fail("%u of %u were taken, and the flow is not as it should be",
                     (unsigned)play->taken, (unsigned)play->items);
}

static void flow_1_2(void)
{
    play_flow(1, 2, pop_all);
}

static void flow_1_3(void)
{
    play_flow(1, 3, pop_all);
}

static void flow_2_3(void)
{
    play_flow(2, 3, pop_all);
}

static void flow_4_3_batch(void)
{
    play_flow(4, 3, pop_batch);
}

/* ---- two workers of a stream ----------------------------------------------------- */

/* What stream_worker.c needs to give, take and wait: worker 0 gives to worker 1. Naps
 * end at once, so that nobody is saved by them. */
typedef struct pair_play {
    pst_stream stream;
    pst_stream_worker_state workers[2];
    pst_flow flow;
    pst_flow *ends[1];
    uint64_t items;
    uint64_t taken;
    bool was_ended;
    bool sink_fails;
    pst_stream_stage stages[2];
    uint32_t payload[MOST_ITEMS];
} pair_play;

static pair_play *pair;

static void *give_all(void *argument)
{
    pst_stream_worker_state *w = &pair->workers[0];
    for (uint64_t i = 0; i < pair->items; i++) {
        pair->payload[i] = 100 + (uint32_t)i;
        const pst_token token = {.data = &pair->payload[i], .number = i};
        if (!give_to(w, 0, token))
            break;
    }
    settle(w);
    return argument;
}

static void *take_all(void *argument)
{
    pst_stream_worker_state *w = &pair->workers[1];
    pst_token token;
    for (; pair->taken < pair->items; pair->taken++) {
        if (!take_one(w, &token)) {
            pair->was_ended = true;
            break;
        }
        if (token.number != pair->taken ||
            *(const uint32_t *)token.data != 100 + pair->taken)
            explore_fail("token %u holds something else", (unsigned)pair->taken);
    }
    settle(w);
    return argument;
}

static void *cancel(void *argument)
{
    pst_stream_cancel(&pair->stream);
    return argument;
}

static void pair_up(uint32_t capacity, uint64_t items, uint64_t spin_ns)
{
    pair = pst_allocate(&explore_env, sizeof *pair);
    pair->items = items;
    pair->ends[0] = &pair->flow;
    pair->stream.workers = pair->workers;
    pair->stream.worker_count = 2;
    pair->stream.spin_ns = spin_ns;
    for (int i = 0; i < 2; i++) {
        pair->workers[i].stream = &pair->stream;
        pair->workers[i].spin_ns = spin_ns;
    }
    pair->workers[0].out = pair->workers[1].in = pair->ends;
    pair->workers[0].out_count = pair->workers[1].in_count = 1;
    pst__flow_init(&pair->flow, &explore_env, capacity, &pair->workers[0].doorbell,
                   &pair->workers[1].doorbell);
    pst__flow_reset(&pair->flow, near_wrap);
}

static void pair_works(uint32_t capacity, uint64_t items, uint64_t spin_ns)
{
    pair_up(capacity, items, spin_ns);
    explore_start(give_all, NULL);
    explore_start(take_all, NULL);
}

static void check_pair(void)
{
    if (pair->taken != pair->items || !pst__flow_check(&pair->flow))
        explore_fail("%u of %u tokens were taken", (unsigned)pair->taken,
                     (unsigned)pair->items);
}

static void check_cancelled(void)
{
    if ((pair->taken == pair->items) == pair->was_ended)
        explore_fail("a token was neither taken nor given up");
}

static void give_one_take(void)
{
    pair_works(1, 1, 0);
}

static void give_two_take(void)
{
    pair_works(2, 2, 0);
}

/* No room at first: one token waits, one is given, one is taken. */
static void *give_second(void *argument)
{
    give_to(&pair->workers[0], 0, (pst_token){.data = &pair->payload[1], .number = 1});
    settle(&pair->workers[0]);
    return argument;
}

static void full_stream(void)
{
    pair_up(1, 1, 0);
    pair->payload[0] = 100;
    pst__flow_push(&pair->flow, (pst_token){.data = &pair->payload[0], .number = 0});
    explore_start(give_second, NULL);
    explore_start(take_all, NULL);
}

static void give_spinning(void)
{
    pair_works(1, 1, 1000);
}

static void taker_is_cancelled(void)
{
    pair_up(1, 1, 0);
    explore_start(take_all, NULL);
    explore_start(cancel, NULL);
}

static void check_neither(void)
{
    if (pair->taken != 0 || !pair->was_ended)
        explore_fail("a token came from nowhere");
}

static void giver_is_cancelled(void)
{
    pair_up(1, 2, 0);
    explore_start(give_all, NULL);
    explore_start(cancel, NULL);
}

static void pair_is_cancelled(void)
{
    pair_works(1, 1, 0);
    explore_start(cancel, NULL);
}

/* ---- a source and a sink, from the first item to the end ------------------ */

static pst_status make_item(void *self, pst_stream_item *item, pst_error *err)
{
    pair_play *p = self;
    (void)err;
    item->end = item->number == p->items;
    if (item->end)
        return PST_OK;
    p->payload[item->number] = 100 + (uint32_t)item->number;
    item->data = &p->payload[item->number];
    return PST_OK;
}

static pst_status look_at_item(void *self, pst_stream_item *item, pst_error *err)
{
    pair_play *p = self;
    (void)err;
    if (item->number != p->taken || *(const uint32_t *)item->data != 100 + p->taken)
        explore_fail("item %u comes as number %u", (unsigned)item->number,
                     (unsigned)p->taken);
    p->taken++;
    return p->sink_fails ? PST_ECALLBACK : PST_OK;
}

static void *work(void *number)
{
    pst__stream_work(&pair->stream, (int)(uintptr_t)number);
    return NULL;
}

static void stream_up(uint64_t items, bool sink_fails)
{
    pair_up(2, items, 0);
    pair->sink_fails = sink_fails;
    pair->stages[0] = (pst_stream_stage){.self = pair, .run = make_item};
    pair->stages[1] = (pst_stream_stage){.self = pair, .run = look_at_item};
    pair->stream.stages = pair->stages;
    pair->stream.stage_count = 2;
    for (int i = 0; i < 2; i++) {
        pair->workers[i].number = pair->workers[i].first_stage = i;
        pair->workers[i].stage_end = i + 1;
        explore_start(work, (void *)(uintptr_t)i);
    }
}

static void stream_ends_at_once(void)
{
    stream_up(0, false);
}

static void stream_ends_after_one(void)
{
    stream_up(1, false);
}

static void sink_fails(void)
{
    stream_up(1, true);
}

static void check_whole(void)
{
    check_pair();
    if (pair->workers[1].taken != pair->items || pst__flow_peek(&pair->flow))
        explore_fail("the sink has not had all");
}

static void check_failed(void)
{
    if (pair->workers[1].error.status != PST_ECALLBACK ||
        atomic_load_explicit(&pair->stream.failed, memory_order_relaxed) != 2)
        explore_fail("the sink's failure is not told");
}

/* The caller learns of a failure when the worker has come back. */
static void *fail_stream(void *argument)
{
    pst_stream_worker_state *w = &pair->workers[0];
    fail(w, 0, PST_ECALLBACK);
    w->error.status = PST_ECALLBACK; /* here, where the write is seen */
    return argument;
}

static void *call_stream(void *argument)
{
    explore_join(explore_start(fail_stream, NULL));
    if (find_fault(&pair->stream, NULL) != PST_ECALLBACK)
        explore_fail("the worker's failure is not told");
    return argument;
}

static void stream_fails(void)
{
    pair_up(1, 1, 0);
    pair->stream.stages = pst_allocate(&explore_env, sizeof *pair->stream.stages);
    pair->stream.stage_count = 1;
    explore_start(call_stream, NULL);
    explore_start(cancel, NULL);
}

/* ---- a crew --------------------------------------------------------------- */

typedef struct crew_play {
    pst_crew crew;
    int jobs;
    int input;
    int output[2];
} crew_play;

static crew_play *manned;

static void crew_work(void *user, int member)
{
    crew_play *p = user;
    p->output[member] += p->input;
}

static void *run_jobs(void *argument)
{
    pst_crew *crew = &manned->crew;
    int sum = 0;
    pst__crew_start(crew, NULL);
    for (int job = 1; job <= manned->jobs; job++) {
        manned->input = job;
        sum += job;
        pst__crew_begin(crew);
        pst__crew_wait(crew, 0, NULL);
        for (int i = 0; i < crew->size; i++)
            if (manned->output[i] != sum)
                explore_fail("member %d has made %d of %d", i, manned->output[i], sum);
    }
    pst__crew_stop(crew);
    return argument;
}

static void man(int size, int jobs)
{
    manned = pst_allocate(&explore_env, sizeof *manned);
    manned->crew.env = &explore_env;
    manned->crew.name = "crew";
    manned->crew.work = crew_work;
    manned->crew.user = manned;
    manned->crew.size = size;
    manned->jobs = jobs;
    explore_start(run_jobs, NULL);
}

static void crew_of_1(void)
{
    man(1, 2);
}

static void crew_stops(void)
{
    man(2, 0);
}

static void crew_of_2(void)
{
    man(2, 1);
}

static const explore_scenario scenarios[] = {
    {"flow of 1, 2 tokens", flow_1_2, check_flow, 0, EXPLORE_SMALL},
    {"flow of 1, 3 tokens", flow_1_3, check_flow, 0, EXPLORE_SMALL},
    {"flow of 2, 3 tokens", flow_2_3, check_flow, 0, EXPLORE_SMALL},
    {"flow of 4, 3 tokens in batches", flow_4_3_batch, check_flow, 0, EXPLORE_SMALL},
    {"taker of a stream, cancelled", taker_is_cancelled, check_neither, EXPLORE_NAPS,
     EXPLORE_SMALL},
    {"giver of a stream, cancelled", giver_is_cancelled, NULL, EXPLORE_NAPS,
     EXPLORE_SMALL},
    {"stream of 1, 1 token", give_one_take, check_pair, EXPLORE_NAPS, EXPLORE_SMALL},
    {"stream of 1, 1 token, spinning", give_spinning, check_pair, EXPLORE_NAPS,
     EXPLORE_SMALL},
    {"stream of 2, 2 tokens", give_two_take, check_pair, EXPLORE_NAPS, EXPLORE_LARGE},
    {"stream of 1, cancelled", pair_is_cancelled, check_cancelled, EXPLORE_NAPS,
     EXPLORE_LARGE},
    {"stream of 1, full at first", full_stream, check_pair, EXPLORE_NAPS,
     EXPLORE_SMALL},
    {"stream fails", stream_fails, NULL, 0, EXPLORE_SMALL},
    {"stream ends at once", stream_ends_at_once, check_whole, EXPLORE_NAPS,
     EXPLORE_SMALL},
    {"stream ends after 1 item", stream_ends_after_one, check_whole, EXPLORE_NAPS,
     EXPLORE_LARGE},
    {"sink fails", sink_fails, check_failed, EXPLORE_NAPS, EXPLORE_LARGE},
    {"crew of 2, no job", crew_stops, NULL, 0, EXPLORE_LARGE},
    {"crew of 1, 2 jobs", crew_of_1, NULL, 0, EXPLORE_SMALL},
    {"crew of 2, 1 job", crew_of_2, NULL, 0, EXPLORE_LONG},
};

explore_scenarios explore_stream_scenarios(void)
{
    return (explore_scenarios){scenarios, sizeof scenarios / sizeof *scenarios};
}
