/* SPDX-License-Identifier: BSD-3-Clause */
/* trainer_peers.c - a trainer whose stages are in several processes. */
#include "model/trainer_peers.h"

#include <string.h>

#include "model/peers.h"

/* In front of squares and losses in what each process tells. */
enum { STOP, SPAN, BUSIEST, FIXED };

static int process_of(const pst_trainer *t, int stage)
{
    return t->process_of_stage ? t->process_of_stage[stage] : 0;
}

static size_t most_units(const pst_trainer *t)
{
    const int units = t->microbatches * t->parts;
    return (size_t)(units > t->eval_microbatches ? units : t->eval_microbatches);
}

pst_status pst__trainer_prepare_peers(pst_trainer *trainer, pst_error *err)
{
    pst_trainer *t = trainer;
    if (!t->transport)
        return PST_OK;
    const size_t each = FIXED + t->tensor_count + most_units(t);
    const size_t processes = (size_t)t->transport->processes;
    t->told = pst_allocate_array(&t->env, each * (processes + 1), sizeof *t->told);
    t->stage_of_tensor =
        pst_allocate_array(&t->env, t->tensor_count, sizeof *t->stage_of_tensor);
    if (!t->told || !t->stage_of_tensor)
        return pst_error_no_memory(err, "a trainer", each * processes);
    size_t next = 0;
    for (int stage = 0; stage < t->stages; stage++)
        for (size_t i = 0; i < t->slices[stage].parameter_count; i++)
            if (!t->slices[stage].parameters[i].tied_copy)
                t->stage_of_tensor[next++] = stage;
    return PST_OK;
}

void pst__trainer_release_peers(pst_trainer *trainer)
{
    pst_release(&trainer->env, trainer->told);
    pst_release(&trainer->env, trainer->stage_of_tensor);
    pst_release(&trainer->env, trainer->process_of_stage);
}

/* Seconds from the first action's start here to the last's end, and of the rank that
 * was busy for longest. Clocks of hosts are not compared: rank 0 of a list has both. */
static void measure(pst_trainer *t)
{
    uint64_t first = UINT64_MAX, last = 0, busiest = 0;
    for (int rank = 0; rank < t->ranks; rank++) {
        size_t count;
        const pst_trace_event *event = pst_pipeline_trace(t->pipeline, rank, &count);
        uint64_t busy = 0;
        for (size_t i = 0; i < count; i++) {
            busy += event[i].end_ns - event[i].start_ns;
            first = event[i].start_ns < first ? event[i].start_ns : first;
            last = event[i].end_ns > last ? event[i].end_ns : last;
        }
        busiest = busy > busiest ? busy : busiest;
    }
    t->span = last > first ? 1e-9 * (double)(last - first) : 0;
    t->busiest = 1e-9 * (double)busiest;
}

static void take_larger(double *own, double other)
{
    if (other > *own)
        *own = other;
}

pst_status pst__trainer_share_numbers(pst_trainer *trainer, int units, pst_error *err)
{
    pst_trainer *t = trainer;
    measure(t);
    t->stops = t->asked_to_stop;
    if (!t->transport)
        return PST_OK;
    const size_t count = FIXED + t->tensor_count + (size_t)units;
    double *own = t->told, *all = t->told + FIXED + t->tensor_count + most_units(t);
    own[STOP] = t->stops;
    own[SPAN] = t->span;
    own[BUSIEST] = t->busiest;
    memcpy(own + FIXED, t->squares, t->tensor_count * sizeof *own);
    memcpy(own + FIXED + t->tensor_count, t->loss, (size_t)units * sizeof *own);
    const pst_status status =
        pst__peers_gather(t->transport, own, count * sizeof *own, all, err);
    if (status != PST_OK)
        return status;
    for (int process = 0; process < t->transport->processes; process++) {
        const double *theirs = all + (size_t)process * count;
        t->stops |= theirs[STOP] != 0;
        take_larger(&t->span, theirs[SPAN]);
        take_larger(&t->busiest, theirs[BUSIEST]);
    }
    for (size_t i = 0; i < t->tensor_count; i++)
        t->squares[i] =
            all[(size_t)process_of(t, t->stage_of_tensor[i]) * count + FIXED + i];
    const int each = units / t->replicas;
    for (int i = 0; i < units; i++) {
        const int last = (i / each + 1) * t->stages - 1;
        t->loss[i] = all[(size_t)process_of(t, last) * count + FIXED + t->tensor_count +
                         (size_t)i];
    }
    return PST_OK;
}

pst_status pst__trainer_share_logits(pst_trainer *trainer, pst_error *err)
{
    const pst_trainer *t = trainer;
    const pst__batch *b = &t->batch;
    const size_t positions = b->last_position_only ? 1 : b->length;
    const size_t each = positions * (size_t)t->model.vocabulary;
    pst_status status = PST_OK;
    if (!t->transport || !b->logits)
        return PST_OK;
    for (int i = 0; i < t->eval_microbatches && status == PST_OK; i++) {
        const size_t sequences = b->first[i + 1] - b->first[i];
        const int last = (i / b->per_replica + 1) * t->stages - 1;
        if (sequences > 0)
            status = pst__peers_broadcast(t->transport, process_of(t, last),
                                          b->logits + b->first[i] * each,
                                          sequences * each * sizeof(float), err);
    }
    return status;
}

static float *memory_of(const pst_trainer *t, pst__memory memory, int stage)
{
    return memory == PST__OF_WEIGHTS ? pst_pipeline_weights(t->pipeline, stage)
                                     : pst_pipeline_optimizer(t->pipeline, stage);
}

pst_status pst__trainer_copy(pst_trainer *trainer, pst__memory memory, int from_stage,
                             size_t from, int to_stage, size_t to, size_t count,
                             pst_error *err)
{
    const pst_trainer *t = trainer;
    float *source = memory_of(t, memory, from_stage);
    float *target = memory_of(t, memory, to_stage);
    float *room = NULL;
    pst_status status = PST_OK;
    if (t->transport && process_of(t, from_stage) != process_of(t, to_stage)) {
        if (!source && !target)
            room = pst_allocate_array(&t->env, count, sizeof *room);
        if (!source && !target && !room)
            return pst_error_no_memory(err, "weights of another process",
                                       count * sizeof *room);
        status = pst__peers_broadcast(t->transport, process_of(t, from_stage),
                                      source   ? source + from
                                      : target ? target + to
                                               : room,
                                      count * sizeof *room, err);
        pst_release(&t->env, room);
    } else if (source && count > 0) {
        memcpy(target + to, source + from, count * sizeof *source);
    }
    return status;
}

pst_status pst__trainer_fetch_weight(const pst_trainer *trainer, size_t i, float *room,
                                     const float **data, pst_error *err)
{
    const pst_trainer *t = trainer;
    float *own = t->weights[i].data ? t->weights[i].data : room;
    *data = own;
    if (!t->transport)
        return PST_OK;
    return pst__peers_broadcast(t->transport, process_of(t, t->stage_of_tensor[i]), own,
                                t->weights[i].count * sizeof *own, err);
}
