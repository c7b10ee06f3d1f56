/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_worker.c - the loop of a stream's worker: take a token, call, give it on. */
#include <inttypes.h>

#include "stages/stream_engine.h"

enum {
    SETTLE_EVERY = 64, /* tokens: the cost of settling is spread over so many        */
    BATCH_LOOKS = 8,   /* with a pause each, while some tens of tokens come          */
    LEAST_SPIN_NS = 2000, /* what waiting by sleep would cost at the least */
    NAP_NS = 1000000 /* the longest that a wake-up which was not settled is missed */
};

/* relaxed: for the watchdog and for people, who need no order. */
static inline void show_state(pst_stream_worker_state *w, int state)
{
    atomic_store_explicit(&w->state, (uint32_t)state, memory_order_relaxed);
}

/* relaxed: as above. */
static inline void show_position(pst_stream_worker_state *w, uint64_t number)
{
    atomic_store_explicit(&w->position, number, memory_order_relaxed);
}

/* seq_cst: S4 of doorbell.h, with this flag in place of the count, when the worker is
 * about to sleep. Also acquire: pairs with the release in pst__stream_end(). */
static inline bool has_ended(const pst_stream *s)
{
    return atomic_load_explicit(&s->ended, memory_order_seq_cst) != PST__STREAM_GOES_ON;
}

/* ---- waiting --------------------------------------------------------------- */

/* Make sure that no neighbour sleeps for what this worker has done. */
static void settle(pst_stream_worker_state *w)
{
    for (int i = 0; i < w->out_count; i++)
        pst__flow_settle_tail(w->out[i]);
    for (int i = 0; i < w->in_count; i++)
        pst__flow_settle_head(w->in[i]);
    w->moved = 0;
}

/* Look for spin_ns from `start`. Returns whether what the worker waits for is there. */
static bool spin(pst_stream_worker_state *w, uint64_t start,
                 bool (*there)(pst_stream_worker_state *))
{
    for (unsigned looks = 1; w->spin_ns; looks++) {
        if (there(w) || has_ended(w->stream))
            return true;
        pst__pause();
        if (looks % 32 == 0 && pst__now_ns() - start > w->spin_ns)
            break;
    }
    return false;
}

/* A wait has ended that would have been spared by a sufficient spin, or was far longer:
 * the next spin is the longest, or shorter than the last. */
static void adapt(pst_stream_worker_state *w, uint64_t waited_ns)
{
    const uint64_t most = w->stream->spin_ns;
    if (waited_ns <= 2 * most)
        w->spin_ns = most;
    else if (w->spin_ns > LEAST_SPIN_NS)
        w->spin_ns /= 2;
}

/*
 * Sleep until it is there. A push that was not settled may have looked at the doorbell
 * before it was armed and be seen here after we looked, so the first sleep has a limit;
 * a doorbell that stayed armed through it is seen by every later push.
 */
static void sleep_until(pst_stream_worker_state *w, int what,
                        bool (*there)(pst_stream_worker_state *))
{
    const uint32_t armed = (uint32_t)what + 1;
    uint64_t limit_ns = NAP_NS;
    pst__doorbell_arm(&w->doorbell, what);
    while (!there(w) && !has_ended(w->stream)) {
        pst__futex_wait(&w->doorbell.word, armed, limit_ns);
        /* relaxed: whoever changed it did so after what we are about to look at. */
        if (atomic_load_explicit(&w->doorbell.word, memory_order_relaxed) == armed) {
            limit_ns = 0;
        } else {
            limit_ns = NAP_NS;
            pst__doorbell_arm(&w->doorbell, what);
        }
    }
    pst__doorbell_disarm(&w->doorbell);
}

/* False: the run ends. */
static bool wait_until(pst_stream_worker_state *w, int what, int state,
                       bool (*there)(pst_stream_worker_state *))
{
    settle(w);
    show_state(w, state);
    const uint64_t start = w->spin_ns ? pst__now_ns() : 0;
    if (!spin(w, start, there)) {
        sleep_until(w, what, there);
        if (w->spin_ns)
            adapt(w, pst__now_ns() - start);
    }
    return !has_ended(w->stream);
}

/* ---- taking ---------------------------------------------------------------- */

/* The flow whose first token is the next one; -1: it is not there. An end counts as the
 * next one where every flow has come to it. */
static int find_next(pst_stream_worker_state *w)
{
    int at_end = 0;
    for (int i = 0; i < w->in_count; i++) {
        const int at = (w->in_at + 1 + i) % w->in_count;
        const pst_token *token = pst__flow_peek(w->in[at]);
        if (!token)
            continue;
        if (token->number & PST__END)
            at_end++;
        else if (!w->in_order || (token->number & PST__NUMBER) == w->next)
            return at;
    }
    return at_end == w->in_count ? 0 : -1;
}

static bool input_is_there(pst_stream_worker_state *w)
{
    return w->in_count == 1 ? pst__flow_peek(w->in[0]) != NULL : find_next(w) >= 0;
}

static inline void pop(pst_flow *flow)
{
    pst__flow_pop(flow);
    if (pst__flow_is_low(flow))
        pst__doorbell_ring(flow->producer, PST__FOR_ROOM);
}

/* Look for a batch for a moment. Returns whether one came. */
static bool batch_comes(const pst_stream_worker_state *w, pst_flow *flow)
{
    if (pst__flow_look_for_batch(flow) > 0)
        return true;
    for (int looks = 0; w->spin_ns && looks < BATCH_LOOKS; looks++) {
        pst__pause();
        if (pst__flow_look_for_batch(flow) > 0)
            return true;
    }
    return false;
}

/* False: the run ends. */
static inline bool take_one(pst_stream_worker_state *w, pst_token *token)
{
    pst_flow *flow = w->in[0];
    if (pst__flow_known(flow) == 0 && !batch_comes(w, flow) &&
        pst__flow_look(flow) == 0 &&
        !wait_until(w, PST__FOR_INPUT, PST__STREAM_TAKES, input_is_there))
        return false;
    *token = *pst__flow_peek(flow);
    pop(flow);
    return true;
}

/* From one of several flows. An end stays where it is. */
static bool take_joined(pst_stream_worker_state *w, pst_token *token)
{
    int at = find_next(w);
    if (at < 0) {
        if (!wait_until(w, PST__FOR_INPUT, PST__STREAM_TAKES, input_is_there))
            return false;
        at = find_next(w);
    }
    *token = *pst__flow_peek(w->in[at]);
    if (!(token->number & PST__END)) {
        pop(w->in[at]);
        token->number = w->next | (token->number & PST__HOLE);
    }
    w->in_at = at;
    w->next++;
    return true;
}

/* A source's: nothing yet, or an empty buffer. */
static inline bool take_empty(pst_stream_worker_state *w, pst_token *token)
{
    token->data = NULL;
    if (w->in_count == 1 && !take_one(w, token))
        return false;
    token->number = w->next++;
    return true;
}

static inline bool take(pst_stream_worker_state *w, pst_token *token)
{
    if (w->first_stage == 0)
        return take_empty(w, token);
    return w->in_count == 1 ? take_one(w, token) : take_joined(w, token);
}

/* ---- giving ---------------------------------------------------------------- */

static bool room_is_there(pst_stream_worker_state *w)
{
    if (!w->out_any)
        return pst__flow_has_much_room(w->out[w->out_at]);
    for (int i = 0; i < w->out_count; i++)
        if (pst__flow_has_much_room(w->out[i]))
            return true;
    return false;
}

static inline void push(pst_flow *flow, pst_token token)
{
    pst__flow_push(flow, token);
    pst__doorbell_ring(flow->consumer, PST__FOR_INPUT);
}

/* False: the run ends. */
static inline bool give_to(pst_stream_worker_state *w, int at, pst_token token)
{
    pst_flow *flow = w->out[at];
    if (!pst__flow_has_room(flow)) {
        w->out_at = at;
        w->out_any = false;
        if (!wait_until(w, PST__FOR_ROOM, PST__STREAM_GIVES, room_is_there))
            return false;
    }
    push(flow, token);
    return true;
}

/* The replica with the fewest tokens waiting; after the last one where they are equal.
 */
static int least_loaded(pst_stream_worker_state *w)
{
    int best = 0;
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < w->out_count && least > 0; i++) {
        const int at = (w->out_at + 1 + i) % w->out_count;
        const uint32_t depth = pst__flow_depth(w->out[at]);
        if (depth < least) {
            least = depth;
            best = at;
        }
    }
    return best;
}

static bool give_parted(pst_stream_worker_state *w, pst_token token)
{
    int at = least_loaded(w);
    if (!pst__flow_has_room(w->out[at])) {
        w->out_any = true;
        if (!wait_until(w, PST__FOR_ROOM, PST__STREAM_GIVES, room_is_there))
            return false;
        at = least_loaded(w);
    }
    w->out_at = at;
    push(w->out[at], token);
    return true;
}

static bool give_end(pst_stream_worker_state *w, pst_token token)
{
    for (int i = 0; i < w->out_count; i++)
        if (!give_to(w, i, token))
            return false;
    return true;
}

/* False: the run ends, and the token is still in the worker's hands. */
static inline bool give(pst_stream_worker_state *w, pst_token token)
{
    if (w->out_count == 1)
        return give_to(w, 0, token);
    if (w->out_count == 0)
        return true;
    return token.number & PST__END ? give_end(w, token) : give_parted(w, token);
}

/* ---- calling --------------------------------------------------------------- */

/* The first worker to fail is the one whose error is told. */
static void fail(pst_stream_worker_state *w, int stage, pst_status status)
{
    pst_stream *s = w->stream;
    const pst_error *own = &w->callback_error;
    const char *sentence = own->text[0] ? own->text : pst_status_text(status);
    char text[128];
    pst__stream_stage_text(s, stage, text, sizeof text);
    if (pst__stream_replicas(&s->stages[stage]) > 1)
        pst_error_set(&w->error, status, "%s, replica %d, item %" PRIu64 ": %s", text,
                      w->replica, w->item.number, sentence);
    else
        pst_error_set(&w->error, status, "%s, item %" PRIu64 ": %s", text,
                      w->item.number, sentence);
    uint32_t none = 0;
    /* relaxed: read after all have finished, which orders it. */
    atomic_compare_exchange_strong_explicit(&s->failed, &none, (uint32_t)w->number + 1,
                                            memory_order_relaxed, memory_order_relaxed);
    pst__stream_end(s, PST__STREAM_FAILED);
}

static void drop(pst_stream_worker_state *w, pst_token *token)
{
    token->number |= PST__HOLE;
    if (pst__stream_owns_buffers(w->stream))
        return;
    pst__stream_discard(w->stream, token->data);
    token->data = NULL;
}

/* Let the worker's stages have the item. False: one of them failed. */
static inline bool call(pst_stream_worker_state *w, pst_token *token)
{
    pst_stream_item *item = &w->item;
    void *const buffer = token->data;
    item->data = buffer;
    item->number = token->number;
    for (int i = w->first_stage; i < w->stage_end; i++) {
        const pst_stream_stage *stage = &w->stream->stages[i];
        show_state(w, PST__STREAM_CALLS + i);
        item->drop = 0;
        item->end = 0;
        const pst_status status = stage->run(stage->self, item, &w->callback_error);
        if (!pst__stream_owns_buffers(w->stream))
            token->data = item->data;
        if (status != PST_OK) {
            fail(w, i, status);
            return false;
        }
        if (w->callback_error.status != PST_OK) /* set, but all went well in the end */
            w->callback_error = (pst_error)PST_ERROR_INIT;
        if (i == 0 && item->end) {
            token->number |= PST__END;
            return true;
        }
        if (item->drop) {
            drop(w, token);
            return true;
        }
    }
    return true;
}

/* The sink is done with it: a buffer goes back, a pointer is the sink's. */
static inline void pass_sink(pst_stream_worker_state *w, pst_token *token)
{
    w->taken += !(token->number & (PST__HOLE | PST__END));
    if (!pst__stream_owns_buffers(w->stream))
        token->data = NULL;
}

static void run(pst_stream_worker_state *w)
{
    const bool is_sink = w->stage_end == w->stream->stage_count;
    pst_token token;
    while (!has_ended(w->stream) && take(w, &token)) {
        show_position(w, token.number & PST__NUMBER);
        const bool whole = !(token.number & (PST__HOLE | PST__END));
        if (whole && !call(w, &token))
            goto early;
        if (is_sink)
            pass_sink(w, &token);
        if (!give(w, token))
            goto early;
        if (token.number & PST__END)
            return;
        if (++w->moved == SETTLE_EVERY)
            settle(w);
    }
    return;
early:
    w->held = token;
    w->holds = true;
}

void pst__stream_work(void *stream, int worker)
{
    pst_stream *s = stream;
    pst_stream_worker_state *w = &s->workers[worker];
    run(w);
    settle(w);
    show_state(w, has_ended(s) ? PST__STREAM_IDLE : PST__STREAM_HAS_ENDED);
}
