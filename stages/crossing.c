/* SPDX-License-Identifier: BSD-3-Clause */
/* crossing.c - messages between ranks of two processes, over a transport. */
#include "stages/crossing.h"

#include <string.h>

#include "stages/worker.h"

/* How long a wait for a buffer sleeps before it moves transfers on by itself. */
enum { NAP_NS = 1000000 };

/* A message that will come, in the order in which its sender sends. */
typedef struct pst_expected {
    uint32_t microbatch;
    uint32_t slot;  /* of the receiver; PST__NONE: no bytes                    */
    uint32_t after; /* actions of the receiver that must have ended            */
    uint16_t stage;
    bool forward;
} pst_expected;

/* One end of such a channel, of all programs. */
struct pst_crossing {
    pst_pipeline *pipeline;
    pst_channel *channel;
    bool outgoing;
    int other; /* process                                                      */
    uint32_t tag;
    uint32_t next; /* the worker's: parcel to send, message to be ready for     */
    size_t most;   /* outgoing: bytes of a parcel                              */
    char *memory;  /* outgoing: [parcel_count][most]                            */
    struct pst_parcel *parcels;
    uint32_t parcel_count;
    pst_monitor monitor; /* guards the ring's sending end, and: */
    uint32_t under_way;  /* transfers                                         */
};

typedef struct pst_parcel {
    pst_transfer transfer;
    pst_crossing *crossing;
    bool busy; /* guarded by the monitor                                       */
} pst_parcel;

/* What goes in front of a message. */
typedef struct wire_header {
    int64_t iteration;
    uint64_t bytes;
    uint32_t microbatch;
    uint16_t stage;
    uint8_t direction;
    uint8_t unused[25];
} wire_header;

_Static_assert(sizeof(wire_header) == PST_TRANSFER_HEADER, "the header's size");

/* Until nothing is under way. */
static void wait_for_all(const pst_transport *t, pst_crossing *c)
{
    for (uint32_t left = 1; left > 0;) {
        t->progress(t->self);
        pst__monitor_enter(&c->monitor);
        if (c->under_way > 0)
            pst__monitor_sleep(&c->monitor, NAP_NS);
        left = c->under_way;
        pst__monitor_leave(&c->monitor);
    }
}

/* ---- opening ------------------------------------------------------------------ */

static bool uses_slot(const pst_rank_footprint *row, const pst_step *s, uint32_t slot)
{
    for (uint32_t i = 0; i < s->merge_count; i++)
        if (row->merges[s->merge_first + i] == slot)
            return true;
    return s->input == slot || s->output_grad == slot || s->saved_for_input == slot ||
           s->saved_for_weight == slot || s->kept == slot || s->weights == slot ||
           s->stash == slot || s->sequence == slot || s->waiting == slot;
}

/* The actions of a row that must have ended before the slot is filled for step
 * `user`: all up to the last that uses it for something else. */
static uint32_t free_after(const pst_rank_footprint *row, size_t user, uint32_t slot)
{
    for (size_t i = user; i-- > 0;)
        if (uses_slot(row, &row->steps[i], slot))
            return (uint32_t)i + 1;
    return 0;
}

static bool is_forward(const pst_step *step)
{
    return step->action.op == PST_OP_FORWARD;
}

/* The step of the row that takes what comes over `link` for the stage and microbatch,
 * an activation or a gradient; the row's length where there is none. */
static size_t find_user(const pst_rank_footprint *row, uint32_t link, int stage,
                        uint32_t microbatch, bool forward)
{
    for (size_t i = 0; i < row->step_count; i++) {
        const pst_step *s = &row->steps[i];
        if (s->receive == link && s->action.stage == stage &&
            s->action.microbatch == microbatch && is_forward(s) == forward)
            return i;
    }
    return row->step_count;
}

/* All that comes over `link`, in the order of its sender's row. */
static pst_status list_expected(const pst_pipeline *p, pst_program *program,
                                uint32_t link, pst_error *err)
{
    const pst_footprint *f = program->footprint;
    const pst_rank_footprint *from = &f->rank[f->links[link].sender];
    const pst_rank_footprint *to = &f->rank[f->links[link].receiver];
    uint32_t count = 0;
    for (size_t i = 0; i < from->step_count; i++)
        count += from->steps[i].send == link;
    pst_expected *next = pst_allocate_array(&p->env, count, sizeof *next);
    if (!next)
        return pst_error_no_memory(err, "the messages of a schedule", 0);
    program->expected[link] = next;
    program->expected_count[link] = count;
    for (size_t i = 0; i < from->step_count; i++) {
        const pst_step *s = &from->steps[i];
        if (s->send != link)
            continue;
        const bool forward = is_forward(s);
        const int stage = forward ? pst__stage_after(p, s->action.stage)
                                  : pst__stage_before(p, s->action.stage);
        const size_t user = find_user(to, link, stage, s->action.microbatch, forward);
        if (user == to->step_count)
            return pst_error_set(
                err, PST_ESCHEDULE,
                "nobody takes a message of rank %d; please report this",
                f->links[link].sender);
        const uint32_t slot =
            forward ? to->steps[user].input : to->steps[user].output_grad;
        *next++ = (pst_expected){.microbatch = s->action.microbatch,
                                 .slot = slot,
                                 .after = free_after(to, user, slot),
                                 .stage = (uint16_t)stage,
                                 .forward = forward};
    }
    return PST_OK;
}

/* Bytes of the largest message over the link. */
static size_t largest(const pst_pipeline *p, const pst_footprint *f, uint32_t link)
{
    const pst_rank_footprint *from = &f->rank[f->links[link].sender];
    size_t most = 0;
    for (size_t i = 0; i < from->step_count; i++) {
        const pst_step *s = &from->steps[i];
        if (s->send != link)
            continue;
        const pst_stage *stage = &p->stages[s->action.stage].stage;
        const size_t bytes = is_forward(s) ? stage->output_bytes : stage->input_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* More parcels, larger ones. */
static pst_status enlarge(pst_crossing *c, uint32_t count, size_t most, pst_error *err)
{
    const pst_env *env = &c->pipeline->env;
    if (count <= c->parcel_count && most <= c->most)
        return PST_OK;
    wait_for_all(c->pipeline->options.transport, c);
    count = count > c->parcel_count ? count : c->parcel_count;
    most = most > c->most ? most : c->most;
    const size_t each = (most + PST__ALIGNMENT - 1) / PST__ALIGNMENT * PST__ALIGNMENT;
    pst_parcel *parcels = pst_allocate_array(env, count, sizeof *parcels);
    char *memory = each > 0 ? pst_allocate_array(env, count, each) : NULL;
    if (!parcels || (each > 0 && !memory)) {
        pst_release(env, parcels);
        pst_release(env, memory);
        return pst_error_no_memory(err, "messages to another process",
                                   (unsigned long long)count * each);
    }
    pst_release(env, c->parcels);
    pst_release(env, c->memory);
    c->parcels = parcels;
    c->memory = memory;
    c->parcel_count = count;
    c->most = each;
    c->next = 0;
    for (uint32_t i = 0; i < count; i++)
        parcels[i].crossing = c;
    return PST_OK;
}

/* The crossing of a channel with one end here, made where there is none. */
static pst_crossing *crossing_of(pst_pipeline *p, size_t channel)
{
    if (p->crossings[channel])
        return p->crossings[channel];
    pst_crossing *c = pst_allocate(&p->env, sizeof *c);
    if (!c)
        return NULL;
    c->pipeline = p;
    c->channel = p->channels[channel];
    c->outgoing = pst__is_here(p, c->channel->sender);
    c->other =
        p->process_of_rank[c->outgoing ? c->channel->receiver : c->channel->sender];
    c->tag = p->first_tag + (uint32_t)channel;
    pst__monitor_init(&c->monitor);
    p->crossings[channel] = c;
    return c;
}

static size_t index_of(const pst_pipeline *p, const pst_channel *channel)
{
    size_t i = 0;
    while (p->channels[i] != channel)
        i++;
    return i;
}

static pst_status open_crossing(pst_pipeline *p, pst_program *program, uint32_t link,
                                pst_error *err)
{
    const pst_link *l = &program->footprint->links[link];
    if (pst__is_here(p, l->sender) == pst__is_here(p, l->receiver))
        return PST_OK;
    const size_t channel = index_of(p, program->channels[link]);
    pst_crossing *c = crossing_of(p, channel);
    if (!c)
        return pst_error_no_memory(err, "a channel between two processes", 0);
    program->crossings[link] = c;
    if (c->outgoing)
        return enlarge(c, l->capacity, largest(p, program->footprint, link), err);
    const pst_status status = list_expected(p, program, link, err);
    /* Small messages may overtake large ones, so the table must hold all. */
    if (status == PST_OK &&
        !pst__channel_deepen(c->channel, &p->env, l->capacity, l->capacity))
        return pst_error_no_memory(err, "a channel between two processes", 0);
    return status == PST_OK ? enlarge(c, program->expected_count[link], 0, err)
                            : status;
}

static bool widen_crossings(pst_pipeline *p)
{
    if (p->channel_count <= p->crossing_room)
        return true;
    pst_crossing **wider = pst_allocate_array(&p->env, p->channel_count, sizeof *wider);
    if (!wider)
        return false;
    if (p->crossing_room > 0)
        memcpy(wider, p->crossings, p->crossing_room * sizeof *wider);
    pst_release(&p->env, p->crossings);
    p->crossings = wider;
    p->crossing_room = p->channel_count;
    return true;
}

pst_status pst__crossings_open(pst_pipeline *pipeline, pst_program *program,
                               pst_error *err)
{
    const size_t links = program->footprint->link_count;
    const pst_env *env = &pipeline->env;
    if (!pipeline->process_of_rank || links == 0)
        return PST_OK;
    program->crossings = pst_allocate_array(env, links, sizeof *program->crossings);
    program->expected = pst_allocate_array(env, links, sizeof *program->expected);
    program->expected_count =
        pst_allocate_array(env, links, sizeof *program->expected_count);
    if (!program->crossings || !program->expected || !program->expected_count ||
        !widen_crossings(pipeline))
        return pst_error_no_memory(err, "channels between processes", 0);
    pst_status status = PST_OK;
    for (uint32_t link = 0; status == PST_OK && link < links; link++)
        status = open_crossing(pipeline, program, link, err);
    return status;
}

void pst__crossings_release(pst_program *program, const pst_env *env)
{
    for (uint32_t i = 0; program->expected && i < program->footprint->link_count; i++)
        pst_release(env, program->expected[i]);
    pst_release(env, program->crossings);
    pst_release(env, program->expected);
    pst_release(env, program->expected_count);
}

/* ---- a run -------------------------------------------------------------------- */

/* Once the monitor is left, the parcel is the worker's again, and the crossing may go.
 * What was cut off ends the run. */
static void end_transfer(pst_parcel *parcel, const pst_message *message)
{
    pst_crossing *c = parcel->crossing;
    pst__monitor_enter(&c->monitor);
    if (parcel->transfer.failed || (message && !pst__channel_send(c->channel, message)))
        pst__pipeline_cut(c->pipeline);
    else if (message)
        pst__doorbell_ring(&c->pipeline->workers[c->channel->receiver].doorbell,
                           c->channel->sender);
    parcel->busy = false;
    c->under_way--;
    pst__monitor_wake(&c->monitor);
    pst__monitor_leave(&c->monitor);
}

static void has_been_sent(pst_transfer *transfer)
{
    end_transfer(transfer->user, NULL);
}

static void has_come(pst_transfer *transfer)
{
    wire_header header;
    memcpy(&header, transfer->header, sizeof header);
    const pst_message message = {.microbatch = header.microbatch,
                                 .stage = header.stage,
                                 .direction = header.direction,
                                 .iteration = header.iteration,
                                 .bytes = transfer->bytes};
    end_transfer(transfer->user, &message);
}

static pst_transfer *start(pst_crossing *c, pst_parcel *parcel,
                           void (*done)(pst_transfer *))
{
    pst__monitor_enter(&c->monitor);
    parcel->busy = true;
    c->under_way++;
    pst__monitor_leave(&c->monitor);
    parcel->transfer = (pst_transfer){.done = done, .user = parcel};
    return &parcel->transfer;
}

void pst__crossings_begin(pst_pipeline *pipeline)
{
    const pst_program *program = pipeline->run.program;
    for (uint32_t i = 0; program->crossings && i < program->footprint->link_count; i++)
        if (program->crossings[i] && !program->crossings[i]->outgoing)
            program->crossings[i]->next = 0;
}

/* Be ready for the channel's messages, up to the first that has no room yet. */
static void post_all(pst_worker *w, uint32_t link, uint32_t position)
{
    const pst_pipeline *p = w->pipeline;
    const pst_program *program = p->run.program;
    const pst_transport *t = p->options.transport;
    pst_crossing *c = program->crossings[link];
    for (; c->next < program->expected_count[link]; c->next++) {
        const pst_expected *e = &program->expected[link][c->next];
        if (e->microbatch >= p->run.microbatches)
            continue;
        if (e->after > position)
            return;
        const pst_stage *stage = &p->stages[e->stage].stage;
        char *slot = e->slot == PST__NONE
                         ? NULL
                         : w->working.base +
                               program->footprint->rank[w->rank].slot_offset[e->slot];
        t->receive(t->self, c->other, c->tag, slot,
                   e->forward ? stage->input_bytes : stage->output_bytes,
                   start(c, &c->parcels[c->next], has_come));
    }
}

void pst__crossings_post(pst_worker *worker, uint32_t position)
{
    const pst_program *program = worker->pipeline->run.program;
    for (uint32_t i = 0; i < program->footprint->link_count; i++)
        if (program->crossings[i] && !program->crossings[i]->outgoing &&
            program->footprint->links[i].receiver == worker->rank)
            post_all(worker, i, position);
}

/* Sleep for a moment where it is still under way. */
static bool is_free(pst_crossing *c, const pst_parcel *parcel)
{
    pst__monitor_enter(&c->monitor);
    if (parcel->busy)
        pst__monitor_sleep(&c->monitor, NAP_NS);
    const bool busy = parcel->busy;
    pst__monitor_leave(&c->monitor);
    return !busy;
}

bool pst__crossing_claim(pst_worker *worker, pst_crossing *crossing, void **place)
{
    const pst_pipeline *p = worker->pipeline;
    const pst_transport *t = p->options.transport;
    while (!is_free(crossing, &crossing->parcels[crossing->next])) {
        if (pst__worker_has_to_end(worker))
            return false;
        t->progress(t->self);
    }
    *place =
        crossing->memory ? crossing->memory + crossing->next * crossing->most : NULL;
    return true;
}

void pst__crossing_send(pst_crossing *crossing, const pst_message *message)
{
    pst_crossing *c = crossing;
    const pst_pipeline *p = c->pipeline;
    const pst_transport *t = p->options.transport;
    const wire_header header = {.iteration = message->iteration,
                                .bytes = message->bytes,
                                .microbatch = message->microbatch,
                                .stage = message->stage,
                                .direction = message->direction};
    const pst_stage *to = &p->stages[message->stage].stage;
    const size_t most =
        message->direction == PST__FORWARD ? to->input_bytes : to->output_bytes;
    pst_transfer *transfer = start(c, &c->parcels[c->next], has_been_sent);
    memcpy(transfer->header, &header, sizeof header);
    t->send(t->self, c->other, c->tag, c->memory ? c->memory + c->next * c->most : NULL,
            message->bytes, most, transfer);
    c->next = (c->next + 1) % c->parcel_count;
}

void pst__crossings_close(pst_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->crossing_room; i++) {
        pst_crossing *c = pipeline->crossings[i];
        if (!c)
            continue;
        wait_for_all(pipeline->options.transport, c);
        pst__monitor_fini(&c->monitor);
        pst_release(&pipeline->env, c->parcels);
        pst_release(&pipeline->env, c->memory);
        pst_release(&pipeline->env, c);
    }
    pst_release(&pipeline->env, pipeline->crossings);
}
