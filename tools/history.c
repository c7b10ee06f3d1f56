/* SPDX-License-Identifier: BSD-3-Clause */
/* history.c - the traces of a run's last steps. */
#include <stdlib.h>
#include <string.h>

#include "tools/history.h"

struct pst_history {
    const pst_schedule *schedule;
    int ranks;
    int stages;
    size_t held;             /* iterations, at most PST_HISTORY_STEPS          */
    size_t next;             /* slot that the next one goes to                 */
    size_t *first;           /* [ranks + 1] where each rank's events begin     */
    size_t *count;           /* [PST_HISTORY_STEPS][ranks]                     */
    pst_trace_event *events; /* [PST_HISTORY_STEPS][first[ranks]]              */
};

pst_status history_create(const pst_schedule *schedule, pst_history **out,
                          pst_error *err)
{
    pst_history *history = calloc(1, sizeof *history);
    if (history == NULL)
        return pst_error_no_memory(err, "the history", sizeof *history);
    int ranks = pst_schedule_ranks(schedule);
    history->schedule = schedule;
    history->ranks = ranks;
    history->stages = pst_schedule_stages(schedule);
    history->first = calloc((size_t)ranks + 1, sizeof *history->first);
    history->count = calloc((size_t)ranks * PST_HISTORY_STEPS, sizeof *history->count);
    size_t events = 0;
    for (int rank = 0; history->first != NULL && rank < ranks; rank++) {
        size_t count;
        pst_schedule_row(schedule, rank, &count);
        history->first[rank] = events;
        events += count;
        history->first[rank + 1] = events;
    }
    history->events = calloc(events * PST_HISTORY_STEPS + 1, sizeof *history->events);
    if (history->first == NULL || history->count == NULL || history->events == NULL) {
        history_destroy(history);
        return pst_error_no_memory(
            err, "the history", events * PST_HISTORY_STEPS * sizeof(pst_trace_event));
    }
    *out = history;
    return PST_OK;
}

void history_destroy(pst_history *history)
{
    if (history == NULL)
        return;
    free(history->first);
    free(history->count);
    free(history->events);
    free(history);
}

static pst_trace_event *slot_events(const pst_history *history, size_t slot, int rank)
{
    return history->events + slot * history->first[history->ranks] +
           history->first[rank];
}

void history_add(pst_history *history, const pst_pipeline *pipeline)
{
    size_t slot = history->next;
    for (int rank = 0; rank < history->ranks; rank++) {
        size_t room = history->first[rank + 1] - history->first[rank];
        size_t count;
        const pst_trace_event *events = pst_pipeline_trace(pipeline, rank, &count);
        count = count < room ? count : room;
        memcpy(slot_events(history, slot, rank), events, count * sizeof *events);
        history->count[slot * (size_t)history->ranks + (size_t)rank] = count;
    }
    history->next = (slot + 1) % PST_HISTORY_STEPS;
    if (history->held < PST_HISTORY_STEPS)
        history->held++;
}

size_t history_count(const pst_history *history)
{
    return history->held;
}

const pst_trace_event *history_events(const pst_history *history, size_t index,
                                      int rank, size_t *count)
{
    size_t oldest = history->held < PST_HISTORY_STEPS ? 0 : history->next;
    size_t slot = (oldest + index) % PST_HISTORY_STEPS;
    *count = history->count[slot * (size_t)history->ranks + (size_t)rank];
    return slot_events(history, slot, rank);
}

static double makespan_of(const pst_history *history, size_t index)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (int rank = 0; rank < history->ranks; rank++) {
        size_t count;
        const pst_trace_event *events = history_events(history, index, rank, &count);
        if (count == 0)
            continue;
        if (events[0].start_ns < first)
            first = events[0].start_ns;
        if (events[count - 1].end_ns > last)
            last = events[count - 1].end_ns;
    }
    return last > first ? (double)(last - first) * 1e-9 : 0.0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

size_t history_typical(const pst_history *history, double *makespan)
{
    double sorted[PST_HISTORY_STEPS], given[PST_HISTORY_STEPS];
    *makespan = 0;
    if (history->held == 0)
        return 0;
    for (size_t i = 0; i < history->held; i++)
        sorted[i] = given[i] = makespan_of(history, i);
    qsort(sorted, history->held, sizeof *sorted, ascending);
    *makespan = sorted[history->held / 2];
    size_t index = 0;
    while (given[index] != *makespan)
        index++;
    return index;
}

/* Median of the durations in seconds of one kind of action, 0 where there are none. */
static double median_duration(const pst_history *history, int stage, unsigned ops,
                              double *room)
{
    int rank = pst_schedule_rank_of(history->schedule, stage);
    size_t found = 0;
    for (size_t i = 0; rank >= 0 && i < history->held; i++) {
        size_t count;
        const pst_trace_event *events = history_events(history, i, rank, &count);
        for (size_t e = 0; e < count; e++)
            if (events[e].stage == stage && (ops >> events[e].op & 1u) != 0)
                room[found++] = (double)(events[e].end_ns - events[e].start_ns) * 1e-9;
    }
    if (found == 0)
        return 0;
    qsort(room, found, sizeof *room, ascending);
    return room[found / 2];
}

pst_status history_costs(const pst_history *history, double *forward,
                         double *backward_input, double *backward_weight,
                         pst_costs *costs, pst_error *err)
{
    size_t longest = 1;
    for (int rank = 0; rank < history->ranks; rank++)
        if (history->first[rank + 1] - history->first[rank] > longest)
            longest = history->first[rank + 1] - history->first[rank];
    double *room = calloc(longest * PST_HISTORY_STEPS, sizeof *room);
    if (room == NULL)
        return pst_error_no_memory(err, "durations",
                                   longest * PST_HISTORY_STEPS * sizeof *room);
    for (int stage = 0; stage < history->stages; stage++) {
        forward[stage] = median_duration(history, stage, 1u << PST_OP_FORWARD, room);
        backward_input[stage] = median_duration(
            history, stage, 1u << PST_OP_BACKWARD | 1u << PST_OP_BACKWARD_INPUT, room);
        backward_weight[stage] =
            median_duration(history, stage, 1u << PST_OP_BACKWARD_WEIGHT, room);
    }
    free(room);
    *costs = (pst_costs){.forward = forward,
                         .backward_input = backward_input,
                         .backward_weight = backward_weight};
    return PST_OK;
}
