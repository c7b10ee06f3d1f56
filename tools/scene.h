/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scene.h - what a picture shows, laid out once; the formats only draw it.
 *
 * One row a rank, one box an action, in one unit of time. Made from a simulation or
 * from a measured trace. Owns everything it points at.
 */
#ifndef PST_TOOLS_SCENE_H
#define PST_TOOLS_SCENE_H

#include <stddef.h>

#include <penstock/pipeline.h>
#include <penstock/simulate.h>

typedef struct scene_box {
    double start;
    double end;
    pst_action action;
    int cpu;  /* on which it ran; -1: unknown                                  */
    int part; /* of two that overlap: 1 or 2; 0: it stands alone               */
} scene_box;

typedef struct scene_row {
    scene_box *boxes; /* actions that compute, in order of time                */
    size_t count;
    char label[48]; /* "rank 0"                                              */
    char place[80]; /* thread and CPU of a measured row, or empty            */
} scene_row;

typedef struct scene {
    int ranks;
    int stages;
    scene_row *rows;
    double span;      /* from 0 to the last end                                */
    double shortest;  /* shortest box that is longer than 0                    */
    int overlaps;     /* some boxes do                                         */
    const char *unit; /* "", "ms"                                              */
    char title[160];
    char note[320]; /* all assumptions                                       */
} scene;

/* Units of the costs; `note` says what was assumed. Errors: PST_ENOMEM. */
pst_status scene_from_simulation(const pst_schedule *schedule,
                                 const pst_simulation *simulation, const char *title,
                                 const char *note, scene **out, pst_error *err);

/*
 * An empty scene of a measured run in milliseconds, to be filled rank by rank; times
 * count from `origin_ns`. `pipeline` tells where workers are; NULL: not said.
 */
pst_status scene_measured(const pst_schedule *schedule, const pst_pipeline *pipeline,
                          const char *title, const char *note, scene **out,
                          pst_error *err);
pst_status scene_add_events(scene *s, int rank, const pst_trace_event *events,
                            size_t count, uint64_t origin_ns, pst_error *err);

/* NULL allowed. */
void scene_destroy(scene *s);

#endif
