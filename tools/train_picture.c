/* SPDX-License-Identifier: BSD-3-Clause */
/* train_picture.c - the pipeline as it should run and as it did. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/draw_cairo.h"
#include "tools/draw_text.h"
#include "tools/perfetto.h"
#include "tools/train_picture.h"

/* Prediction and measurement of one list. */
typedef struct pictures {
    const pst_schedule *schedule;
    const pst_history *history;
    const pst_pipeline *pipeline;
    pst_simulation *simulation;
    double measured; /* typical makespan in ms                           */
    scene *predicted_scene;
    scene *measured_scene; /* the typical step                                 */
} pictures;

/* The simulator's costs in milliseconds, since that is what pictures show. */
static pst_status predict(pictures *p, pst_error *err)
{
    size_t stages = (size_t)pst_schedule_stages(p->schedule);
    double *room = calloc(3 * stages, sizeof *room);
    pst_costs costs;
    if (room == NULL)
        return pst_error_no_memory(err, "costs", 3 * stages * sizeof *room);
    pst_status status =
        history_costs(p->history, room, room + stages, room + 2 * stages, &costs, err);
    for (size_t i = 0; i < 3 * stages; i++)
        room[i] *= 1e3;
    if (status == PST_OK)
        status = pst_simulate(NULL, p->schedule, &costs, &p->simulation, err);
    free(room);
    return status;
}

static uint64_t first_start(const pst_history *history, size_t index, int ranks)
{
    uint64_t first = UINT64_MAX;
    for (int rank = 0; rank < ranks; rank++) {
        size_t count;
        const pst_trace_event *events = history_events(history, index, rank, &count);
        if (count > 0 && events[0].start_ns < first)
            first = events[0].start_ns;
    }
    return first;
}

/* Held iterations first .. last - 1 as one scene. */
static pst_status measured_scene(const pictures *p, size_t first, size_t last,
                                 const char *title, const char *note, scene **out,
                                 pst_error *err)
{
    pst_status status = scene_measured(p->schedule, p->pipeline, title, note, out, err);
    if (status != PST_OK)
        return status;
    uint64_t origin = first_start(p->history, first, (*out)->ranks);
    for (size_t i = first; i < last && status == PST_OK; i++) {
        for (int rank = 0; rank < (*out)->ranks && status == PST_OK; rank++) {
            size_t count;
            const pst_trace_event *events = history_events(p->history, i, rank, &count);
            status = scene_add_events(*out, rank, events, count, origin, err);
        }
    }
    if (status != PST_OK) {
        scene_destroy(*out);
        *out = NULL;
    }
    return status;
}

static pst_status make_scenes(pictures *p, pst_error *err)
{
    char title[160], note[320];
    const char *name = pst_schedule_name(p->schedule);
    snprintf(title, sizeof title, "%s, predicted", name);
    snprintf(
        note, sizeof note,
        "Simulated with the median time of each stage's F and B, no latency; makespan "
        "%.3f ms, bubble %.1f %%. F forward, B backward, with the microbatch.",
        p->simulation->makespan, 100 * p->simulation->bubble.of_makespan);
    pst_status status = scene_from_simulation(p->schedule, p->simulation, title, note,
                                              &p->predicted_scene, err);
    if (status != PST_OK)
        return status;
    p->predicted_scene->unit = "ms";
    size_t typical = history_typical(p->history, &p->measured);
    p->measured *= 1e3;
    snprintf(title, sizeof title, "%s, measured", name);
    snprintf(note, sizeof note,
             "The step with the median makespan of the last %zu: %.3f ms on %d CPUs.",
             history_count(p->history), p->measured, pst_cpu_budget());
    return measured_scene(p, typical, typical + 1, title, note, &p->measured_scene,
                          err);
}

static pst_status print_scene(const scene *s, int color, pst_error *err)
{
    char *text;
    pst_status status = draw_text(s, draw_text_columns(), color, &text, err);
    if (status == PST_OK) {
        printf("\n%s", text);
        free(text);
    }
    return status;
}

/* One scale of time for both, so that they can be compared by eye. */
static void share_span(pictures *p)
{
    double span = p->predicted_scene->span > p->measured_scene->span
                      ? p->predicted_scene->span
                      : p->measured_scene->span;
    p->predicted_scene->span = p->measured_scene->span = span;
}

static pst_status draw_file(const pictures *p, const char *path, pst_error *err)
{
    const scene *scenes[] = {p->predicted_scene, p->measured_scene};
    draw_format format;
    return draw_cairo_format(path, &format) ? draw_cairo(scenes, 2, format, path, err)
                                            : PST_OK; /* refused by the options */
}

static pst_status write_trace(const pictures *p, const char *path, pst_error *err)
{
    char note[64];
    scene *all;
    size_t count = history_count(p->history);
    snprintf(note, sizeof note, "the last %zu steps", count);
    pst_status status = measured_scene(p, 0, count, "pipetrain", note, &all, err);
    if (status != PST_OK)
        return status;
    const scene *scenes[] = {all};
    status = perfetto_write(scenes, 1, path, err);
    scene_destroy(all);
    return status;
}

static void print_makespans(const pictures *p)
{
    double predicted = p->simulation->makespan;
    printf(
        "makespan %.3f ms measured, %.3f ms predicted from measured costs (%+.1f %%)\n",
        p->measured, predicted, 100 * (p->measured / predicted - 1));
    const int ranks = pst_pipeline_sharing(p->pipeline), cpus = pst_cpu_budget();
    if (ranks > cpus)
        printf(
            "(%d ranks share %d CPU%s, so actions that overlap slow each other down)\n",
            ranks, cpus, cpus == 1 ? "" : "s");
}

pst_status train_picture(const pipetrain_settings *settings,
                         const pst_schedule *schedule, const pst_history *history,
                         const pst_pipeline *pipeline, pst_error *err)
{
    pictures p = {.schedule = schedule, .history = history, .pipeline = pipeline};
    int color = draw_text_in_color((draw_color)settings->color);
    pst_status status;
    if ((status = predict(&p, err)) || (status = make_scenes(&p, err)))
        goto out;
    share_span(&p);
    if (!settings->quiet)
        print_makespans(&p);
    if (settings->draw && ((status = print_scene(p.predicted_scene, color, err)) ||
                           (status = print_scene(p.measured_scene, color, err))))
        goto out;
    if (settings->picture != NULL && (status = draw_file(&p, settings->picture, err)))
        goto out;
    if (settings->trace != NULL)
        status = write_trace(&p, settings->trace, err);
out:
    scene_destroy(p.predicted_scene);
    scene_destroy(p.measured_scene);
    pst_simulation_destroy(p.simulation);
    return status;
}
