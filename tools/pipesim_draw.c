/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim_draw.c - draws a schedule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/file.h>

#include "tools/costs.h"
#include "tools/draw_cairo.h"
#include "tools/draw_text.h"
#include "tools/perfetto.h"
#include "tools/pipesim.h"
#include "tools/say.h"

enum { TEXT_FILE_COLUMNS = 160 };

/* A wish for a picture. */
typedef struct wish {
    const char *path; /* NULL: the terminal                                    */
    int columns;      /* 0: as wide as there is room                           */
    int color;
} wish;

static pst_status write_text(const scene *s, const wish *w, pst_error *err)
{
    char *text;
    pst_file_writer *writer;
    int columns = w->columns > 0 ? w->columns : TEXT_FILE_COLUMNS;
    pst_status status =
        draw_text(s, columns, w->color == DRAW_COLOR_ALWAYS, &text, err);
    if (status != PST_OK)
        return status;
    status = pst_file_create(NULL, w->path, &writer, err);
    if (status == PST_OK) {
        pst_file_write(writer, text, strlen(text), NULL);
        status = pst_file_commit(writer, err);
    }
    free(text);
    return status;
}

static pst_status write_file(const scene *s, const wish *w, pst_error *err)
{
    const char *ending = strrchr(w->path, '.');
    draw_format format;
    ending = ending != NULL ? ending : "";
    if (draw_cairo_format(w->path, &format))
        return draw_cairo(&s, 1, format, w->path, err);
    if (strcmp(ending, ".json") == 0)
        return perfetto_write(&s, 1, w->path, err);
    if (strcmp(ending, ".txt") == 0)
        return write_text(s, w, err);
    return pst_error_set(
        err, PST_EINVAL,
        "%s: its ending says no format that can be drawn; use .svg, .pdf, "
        ".png, .txt, or .json for a trace",
        w->path);
}

static pst_status show(const scene *s, const wish *w, pst_error *err)
{
    char *text;
    if (w->path != NULL)
        return write_file(s, w, err);
    int columns = w->columns > 0 ? w->columns : draw_text_columns();
    pst_status status =
        draw_text(s, columns, draw_text_in_color((draw_color)w->color), &text, err);
    if (status == PST_OK) {
        fputs(text, stdout);
        free(text);
    }
    return status;
}

static pst_status draw(const pst_schedule *schedule, costs *c, const wish *w,
                       pst_error *err)
{
    pst_costs resolved;
    pst_simulation *simulation;
    char title[160], note[320], assumed[200];
    pst_status status = costs_resolve(c, schedule, &resolved, err);
    if (status == PST_OK)
        status = pst_simulate(NULL, schedule, &resolved, &simulation, err);
    if (status != PST_OK)
        return status;
    snprintf(title, sizeof title, "%s: %d ranks, %d stages, %d microbatches",
             pst_schedule_name(schedule), simulation->ranks, simulation->stages,
             simulation->microbatches);
    snprintf(note, sizeof note,
             "%s. Makespan %g, ideal %g, bubble %.1f %% of the makespan. F forward, B "
             "backward, I backward-input, W backward-weight, with the microbatch.",
             costs_text(c, assumed, sizeof assumed), simulation->makespan,
             simulation->ideal, 100 * simulation->bubble.of_makespan);
    scene *s;
    status = scene_from_simulation(schedule, simulation, title, note, &s, err);
    if (status == PST_OK) {
        status = show(s, w, err);
        scene_destroy(s);
    }
    pst_simulation_destroy(simulation);
    return status;
}

int pipesim_draw(int argc, char **argv)
{
    shape_options shape = {.order = 0};
    costs c = COSTS_INIT;
    wish w = {.path = NULL};
    /* clang-format off */
    option table[SHAPE_OPTION_COUNT + COSTS_OPTION_COUNT + 3] = {
        {.name = "output", .letter = 'o', .kind = OPTION_STRING, .value = &w.path,
         .argument = "FILE",
         .help = "draw into FILE: .svg, .pdf, .png, .txt, or .json for a trace"},
        {.name = "columns", .kind = OPTION_INT, .value = &w.columns, .argument = "N",
         .help = "width of text (the terminal's)", .lowest = 20, .highest = 100000},
        {.name = "color", .kind = OPTION_CHOICE, .value = &w.color, .argument = "WHEN",
         .help = "auto, always or never (auto: on a terminal)",
         .choices = draw_color_names, .variable = "PENSTOCK_COLOR"},
    };
    /* clang-format on */
    shape_add_options(&shape, table + 3);
    costs_options(&c, table + 3 + SHAPE_OPTION_COUNT);
    const command command = {
        .name = "pipesim draw",
        .operands = "SCHEDULE",
        .summary =
            "Draws a schedule, a name or a CSV file ('-': standard input), as it runs "
            "with the\ngiven costs.",
        .fewest_operands = 1,
        .most_operands = 1,
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .print_version = pipesim_version};
    const char *operand;
    int count;
    pst_schedule *schedule;
    int status = options_parse(&command, argc, argv, &operand, &count);
    if (status == OPTIONS_GO_ON)
        status = shape_make(&command, &shape, &c, operand, &schedule);
    if (status != OPTIONS_GO_ON)
        return status;
    pst_error err = PST_ERROR_INIT;
    status = draw(schedule, &c, &w, &err) == PST_OK ? 0 : say_failure(&err);
    costs_free(&c);
    pst_schedule_destroy(schedule);
    return status;
}
