/* SPDX-License-Identifier: BSD-3-Clause */
/* scene.c - boxes from simulated or measured times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/scene.h"

static pst_status create(int ranks, int stages, const char *title, const char *note,
                         scene **out, pst_error *err)
{
    scene *s = calloc(1, sizeof *s);
    if (s != NULL)
        s->rows = calloc((size_t)ranks, sizeof *s->rows);
    if (s == NULL || s->rows == NULL) {
        free(s);
        return pst_error_no_memory(err, "a picture", (size_t)ranks * sizeof(scene_row));
    }
    s->ranks = ranks;
    s->stages = stages;
    s->unit = "";
    snprintf(s->title, sizeof s->title, "%s", title);
    snprintf(s->note, sizeof s->note, "%s", note);
    for (int rank = 0; rank < ranks; rank++)
        snprintf(s->rows[rank].label, sizeof s->rows[rank].label, "rank %d", rank);
    *out = s;
    return PST_OK;
}

static pst_status make_room(scene_row *row, size_t more, pst_error *err)
{
    size_t wanted = row->count + more;
    scene_box *larger = realloc(row->boxes, (wanted + 1) * sizeof *larger);
    if (larger == NULL)
        return pst_error_no_memory(err, "a picture", wanted * sizeof *larger);
    row->boxes = larger;
    return PST_OK;
}

static void add_box(scene *s, scene_row *row, scene_box box)
{
    const double length = box.end - box.start;
    scene_box *before = row->count > 0 ? &row->boxes[row->count - 1] : NULL;
    if (before && before->action.paired && before->start == box.start) {
        before->part = 1;
        box.part = 2;
        s->overlaps = 1;
    }
    row->boxes[row->count++] = box;
    if (box.end > s->span)
        s->span = box.end;
    if (length > 0 && (s->shortest == 0 || length < s->shortest))
        s->shortest = length;
}

pst_status scene_from_simulation(const pst_schedule *schedule,
                                 const pst_simulation *simulation, const char *title,
                                 const char *note, scene **out, pst_error *err)
{
    scene *s;
    pst_status status =
        create(simulation->ranks, simulation->stages, title, note, &s, err);
    for (int rank = 0; status == PST_OK && rank < simulation->ranks; rank++) {
        size_t length, count = simulation->count[rank];
        const pst_action *actions = pst_schedule_row(schedule, rank, &length);
        status = make_room(&s->rows[rank], count, err);
        for (size_t i = 0; status == PST_OK && i < count; i++)
            if (pst_op_describe(actions[i % length].op)->computes)
                add_box(s, &s->rows[rank],
                        (scene_box){.start = simulation->start[rank][i],
                                    .end = simulation->end[rank][i],
                                    .action = actions[i % length],
                                    .cpu = -1});
        if (status != PST_OK)
            scene_destroy(s);
    }
    if (status != PST_OK)
        return status;
    const size_t length = strlen(s->note);
    if (s->overlaps)
        snprintf(s->note + length, sizeof s->note - length,
                 " Two that overlap share one place.");
    *out = s;
    return PST_OK;
}

pst_status scene_measured(const pst_schedule *schedule, const pst_pipeline *pipeline,
                          const char *title, const char *note, scene **out,
                          pst_error *err)
{
    pst_status status = create(pst_schedule_ranks(schedule),
                               pst_schedule_stages(schedule), title, note, out, err);
    if (status != PST_OK)
        return status;
    (*out)->unit = "ms";
    for (int rank = 0; pipeline != NULL && rank < (*out)->ranks; rank++) {
        pst_worker_info info;
        pst_pipeline_worker(pipeline, rank, &info);
        if (info.thread_id == 0)
            snprintf((*out)->rows[rank].place, sizeof(*out)->rows[rank].place,
                     "another process");
        else
            snprintf((*out)->rows[rank].place, sizeof(*out)->rows[rank].place,
                     "thread %d, CPU %s", info.thread_id, info.cpus);
    }
    return PST_OK;
}

pst_status scene_add_events(scene *s, int rank, const pst_trace_event *events,
                            size_t count, uint64_t origin_ns, pst_error *err)
{
    scene_row *row = &s->rows[rank];
    pst_status status = make_room(row, count, err);
    for (size_t i = 0; status == PST_OK && i < count; i++) {
        const pst_trace_event *e = &events[i];
        pst_action action = {.microbatch = e->microbatch,
                             .stage = e->stage,
                             .op = e->op,
                             .paired = e->paired};
        add_box(s, row,
                (scene_box){.start = (double)(e->start_ns - origin_ns) * 1e-6,
                            .end = (double)(e->end_ns - origin_ns) * 1e-6,
                            .action = action,
                            .cpu = e->cpu == UINT16_MAX ? -1 : e->cpu});
    }
    return status;
}

void scene_destroy(scene *s)
{
    if (s == NULL)
        return;
    for (int rank = 0; rank < s->ranks; rank++)
        free(s->rows[rank].boxes);
    free(s->rows);
    free(s);
}
