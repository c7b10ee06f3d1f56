/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c - loading a schedule into a pipeline. */
#include "stages/program.h"

#include <stdio.h>

#include <penstock/check.h>

#include "stages/crossing.h"

static pst_status check_callbacks(const pst_pipeline *p, const pst_schedule *schedule,
                                  pst_error *err)
{
    for (int rank = 0; rank < p->ranks; rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++) {
            const pst_stage *s = &p->stages[row[i].stage].stage;
            if ((row[i].op == PST_OP_BACKWARD || row[i].op == PST_OP_BACKWARD_INPUT) &&
                !s->backward_input)
                return pst_error_set(err, PST_EINVAL,
                                     "the schedule runs backward, and stage %d has no "
                                     "backward_input callback",
                                     (int)row[i].stage);
        }
    }
    return PST_OK;
}

static pst_status check_shape(const pst_pipeline *p, const pst_schedule *schedule,
                              pst_error *err)
{
    const char *name = pst_schedule_name(schedule);
    if (pst_schedule_ranks(schedule) != p->ranks ||
        pst_schedule_stages(schedule) != p->stage_count)
        return pst_error_set(
            err, PST_EINVAL,
            "schedule %s has %d ranks and %d stages; the pipeline has %d "
            "and %d, and they must be the same",
            name, pst_schedule_ranks(schedule), pst_schedule_stages(schedule), p->ranks,
            p->stage_count);
    if (pst_schedule_replicas(schedule) != p->options.replicas)
        return pst_error_set(
            err, PST_EINVAL,
            "schedule %s has %d replicas of the model; the pipeline has %d", name,
            pst_schedule_replicas(schedule), p->options.replicas);
    for (int stage = 0; stage < p->stage_count; stage++) {
        const int rank = pst_schedule_rank_of(schedule, stage);
        if (rank != p->rank_of_stage[stage])
            return pst_error_set(
                err, PST_EINVAL,
                "schedule %s runs stage %d on rank %d; its weights stand "
                "on rank %d of this pipeline",
                name, stage, rank, p->rank_of_stage[stage]);
    }
    if (pst_schedule_updates(schedule) > 0 && p->ties)
        return pst_error_set(
            err, PST_EINVAL,
            "schedule %s steps each stage by itself, and stages %d and "
            "%d are tied; untied ones would work",
            name, p->ties->members[0].stage, p->ties->members[1].stage);
    return check_callbacks(p, schedule, err);
}

/* The channel between two ranks, made where there is none. NULL: no memory. */
static pst_channel *channel_between(pst_pipeline *p, int sender, int receiver)
{
    for (size_t i = 0; i < p->channel_count; i++)
        if (p->channels[i]->sender == sender && p->channels[i]->receiver == receiver)
            return p->channels[i];
    const size_t count = p->channel_count;
    pst_channel **grown =
        p->channels ? pst_grow(&p->env, p->channels, count * sizeof(pst_channel *),
                               (count + 1) * sizeof(pst_channel *))
                    : pst_allocate(&p->env, sizeof(pst_channel *));
    if (!grown)
        return NULL;
    p->channels = grown;
    pst_channel *channel = pst_allocate(&p->env, sizeof *channel);
    if (!channel)
        return NULL;
    channel->sender = sender;
    channel->receiver = receiver;
    p->channels[p->channel_count++] = channel;
    return channel;
}

static pst_status open_channels(pst_pipeline *p, pst_program *program, pst_error *err)
{
    const pst_footprint *f = program->footprint;
    program->channels =
        pst_allocate_array(&p->env, f->link_count, sizeof *program->channels);
    if (!program->channels)
        return pst_error_no_memory(err, "the channels of a schedule", 0);
    for (uint32_t i = 0; i < f->link_count; i++) {
        const pst_link *link = &f->links[i];
        pst_channel *channel = channel_between(p, link->sender, link->receiver);
        if (!channel ||
            !pst__channel_deepen(channel, &p->env, link->capacity, link->arrived))
            return pst_error_no_memory(err, "a channel between two ranks",
                                       link->capacity * sizeof(pst_message));
        program->channels[i] = channel;
    }
    return PST_OK;
}

static pst_status widen_arena(pst_pipeline *p, int rank, size_t bytes, pst_error *err)
{
    pst_worker *w = &p->workers[rank];
    pst_arena larger;
    if (bytes <= w->working.bytes)
        return PST_OK;
    if (!pst__arena_init(&larger, &p->env, p->topology, w->place, bytes,
                         p->options.huge_pages)) {
        char what[64];
        snprintf(what, sizeof what, "the buffers of rank %d", rank);
        return pst__arena_refuse(p->topology, w->place, what, bytes, err);
    }
    /* Else the worker's own first touch says which node it is on. */
    if (larger.bound)
        pst__arena_touch(&larger, p->topology, w->place);
    pst__arena_fini(&w->working, &p->env);
    w->working = larger;
    return PST_OK;
}

/* What EVICT moves to a partner in another process stays in a part of the partner's
 * arena that is here, of which no other page is touched. */
static bool needs_arena(const pst_pipeline *p, const pst_footprint *f, int rank)
{
    if (pst__is_here(p, rank))
        return true;
    for (int other = 0; other < p->ranks; other++)
        if (f->rank[other].away_count > 0 && f->rank[other].partner == rank &&
            pst__is_here(p, other))
            return true;
    return false;
}

static pst_status make_room(pst_pipeline *p, const pst_footprint *f, pst_error *err)
{
    for (int rank = 0; rank < p->ranks; rank++) {
        pst_worker *w = &p->workers[rank];
        const size_t events = f->rank[rank].step_count;
        if (!needs_arena(p, f, rank))
            continue;
        const pst_status status = widen_arena(p, rank, f->rank[rank].bytes, err);
        if (status != PST_OK)
            return status;
        if (events > w->event_room) {
            void *room = pst_allocate_array(&p->env, events, sizeof *w->events);
            if (!room)
                return pst_error_no_memory(err, "a trace", events * sizeof *w->events);
            pst_release(&p->env, w->events);
            w->events = room;
            w->event_count = 0;
            w->event_room = events;
        }
    }
    const size_t lengths = (size_t)f->stages * (size_t)f->microbatches;
    if (lengths > p->length_room) {
        void *room = pst_allocate_array(&p->env, lengths, sizeof *p->lengths);
        if (!room)
            return pst_error_no_memory(err, "the lengths of messages",
                                       lengths * sizeof *p->lengths);
        pst_release(&p->env, p->lengths);
        p->lengths = room;
        p->length_room = lengths;
    }
    return PST_OK;
}

static pst_status plan(pst_pipeline *p, const pst_schedule *schedule,
                       pst_program *program, pst_error *err)
{
    pst_stage *stages =
        pst_allocate_array(&p->env, (size_t)p->stage_count, sizeof *stages);
    if (!stages)
        return pst_error_no_memory(err, "the footprint of a schedule", 0);
    for (int stage = 0; stage < p->stage_count; stage++)
        stages[stage] = p->stages[stage].stage;
    const pst_status status = pst__footprint_create(
        &p->env, schedule, stages, p->rank_of_stage, &program->footprint, err);
    pst_release(&p->env, stages);
    return status;
}

pst_status pst__program_load(pst_pipeline *pipeline, const pst_schedule *schedule,
                             pst_program *program, pst_error *err)
{
    pst_status status;
    *program = (pst_program){.footprint = NULL};
    if ((status = pst_schedule_check(&pipeline->env, schedule, err)) != PST_OK ||
        (status = check_shape(pipeline, schedule, err)) != PST_OK ||
        (status = plan(pipeline, schedule, program, err)) != PST_OK ||
        (status = open_channels(pipeline, program, err)) != PST_OK ||
        (status = pst__crossings_open(pipeline, program, err)) != PST_OK ||
        (status = make_room(pipeline, program->footprint, err)) != PST_OK)
        pst__program_fini(program, &pipeline->env);
    return status;
}

void pst__program_fini(pst_program *program, const pst_env *env)
{
    pst__crossings_release(program, env);
    pst__footprint_destroy(program->footprint);
    pst_release(env, program->channels);
    *program = (pst_program){.footprint = NULL};
}
