/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c - what the workers of other processes did. */
#include "stages/crossing.h"

static pst_status make_room(const pst_pipeline *p, pst_worker *w, uint64_t count,
                            pst_error *err)
{
    if (count <= w->event_room)
        return PST_OK;
    pst_trace_event *room = pst_allocate_array(&p->env, count, sizeof *room);
    if (!room)
        return pst_error_no_memory(err, "a trace", count * sizeof *room);
    pst_release(&p->env, w->events);
    w->events = room;
    w->event_room = count;
    return PST_OK;
}

pst_status pst_pipeline_share_trace(pst_pipeline *pipeline, pst_error *err)
{
    pst_pipeline *p = pipeline;
    pst_transport *t = p->options.transport;
    pst_status status = PST_OK;
    for (int rank = 0; t && rank < p->ranks && status == PST_OK; rank++) {
        pst_worker *w = &p->workers[rank];
        const int from = p->process_of_rank[rank];
        uint64_t count = w->event_count;
        status = pst_transport_broadcast(t, from, &count, sizeof count, err);
        if (status == PST_OK)
            status = make_room(p, w, count, err);
        if (status == PST_OK)
            status = pst_transport_broadcast(t, from, w->events,
                                             count * sizeof *w->events, err);
        w->event_count = status == PST_OK ? count : 0;
    }
    return status;
}
