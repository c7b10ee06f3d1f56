/* SPDX-License-Identifier: BSD-3-Clause */
/* draw_cairo.c - scenes as SVG, PDF or PNG; the only file that knows cairo. */
#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <penstock/file.h>

#include "tools/draw_cairo.h"

/* Points. */
enum {
    MARGIN = 16,
    LABEL = 64,
    ROW = 28,
    GAP = 4,
    HEAD = 34,
    AXIS = 34,
    NOTE = 40,
    LEAST_WIDTH = 640,
    MOST_WIDTH = 9000
};

static const double text_size = 11, title_size = 14, box_text = 10;
static const double points_per_box = 22; /* of the shortest, if the width allows */

static cairo_status_t write_bytes(void *closure, const unsigned char *data,
                                  unsigned length)
{
    return pst_file_write(closure, data, length, NULL) == PST_OK
               ? CAIRO_STATUS_SUCCESS
               : CAIRO_STATUS_WRITE_ERROR;
}

static void set_color(cairo_t *cr, uint32_t color, double shade)
{
    cairo_set_source_rgb(cr, (color >> 16 & 255u) / 255.0 * shade,
                         (color >> 8 & 255u) / 255.0 * shade,
                         (color & 255u) / 255.0 * shade);
}

static void draw_words(cairo_t *cr, double x, double y, double size, const char *text)
{
    cairo_set_font_size(cr, size);
    cairo_move_to(cr, x, y);
    cairo_show_text(cr, text);
}

/* A text in the middle of a box, if it fits. */
static void draw_inside(cairo_t *cr, double x, double y, double width, double height,
                        const char *text)
{
    cairo_text_extents_t size;
    cairo_set_font_size(cr, box_text);
    cairo_text_extents(cr, text, &size);
    if (size.width + 3 > width || size.height + 2 > height)
        return;
    cairo_move_to(cr, x + (width - size.width) / 2 - size.x_bearing,
                  y + (height - size.height) / 2 - size.y_bearing);
    cairo_show_text(cr, text);
}

/* Of two that overlap, the first is drawn above the second. */
static void draw_box(cairo_t *cr, const scene *s, const scene_box *box, double y,
                     double scale)
{
    double x = MARGIN + LABEL + box->start * scale;
    double width = fmax((box->end - box->start) * scale, 0.5);
    const double height = (ROW - GAP) / (box->part ? 2.0 : 1.0);
    int chunk = box->action.stage / s->ranks;
    char label[32];
    if (box->part == 2)
        y += height;
    set_color(cr, pst_op_describe(box->action.op)->color, pow(0.78, chunk));
    cairo_rectangle(cr, x, y, width, height);
    cairo_fill_preserve(cr);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_set_line_width(cr, width > 3 ? 0.8 : 0.1);
    cairo_stroke(cr);
    /* White on the darker shades, black on the light ones. */
    int dark = chunk > 0 || box->action.op == PST_OP_FORWARD;
    cairo_set_source_rgb(cr, dark, dark, dark);
    snprintf(label, sizeof label, "%" PRIu32, box->action.microbatch);
    draw_inside(cr, x, y, width, height, label);
}

/* 1, 2 or 5 times a power of ten, for about ten marks. */
static double axis_step(double span)
{
    double rough = span / 10, power = pow(10, floor(log10(rough)));
    double lead = rough / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

static void draw_axis(cairo_t *cr, const scene *s, double y, double scale)
{
    double step = s->span > 0 ? axis_step(s->span) : 1;
    cairo_set_source_rgb(cr, 0.25, 0.25, 0.25);
    cairo_set_line_width(cr, 0.8);
    for (int mark = 0; mark * step <= s->span * 1.0001; mark++) {
        double x = MARGIN + LABEL + mark * step * scale;
        char label[48];
        cairo_move_to(cr, x, y);
        cairo_line_to(cr, x, y + 5);
        cairo_stroke(cr);
        snprintf(label, sizeof label, "%g%s%s", mark * step, s->unit[0] != 0 ? " " : "",
                 s->unit);
        draw_words(cr, x - 4, y + 17, text_size, label);
    }
}

static void draw_legend(cairo_t *cr, const scene *s, double y)
{
    unsigned seen = 0;
    double x = MARGIN + LABEL;
    for (int rank = 0; rank < s->ranks; rank++)
        for (size_t i = 0; i < s->rows[rank].count; i++)
            seen |= 1u << s->rows[rank].boxes[i].action.op;
    for (int op = 0; op < PST_OP_COUNT; op++) {
        if ((seen >> op & 1u) == 0)
            continue;
        set_color(cr, pst_op_describe(op)->color, 1);
        cairo_rectangle(cr, x, y - 9, 11, 11);
        cairo_fill(cr);
        cairo_set_source_rgb(cr, 0.25, 0.25, 0.25);
        draw_words(cr, x + 16, y, text_size, pst_op_describe(op)->name);
        x += 110;
    }
}

/* The note on one or two lines. */
static void draw_note(cairo_t *cr, const scene *s, double y, double width)
{
    cairo_text_extents_t size;
    char first[sizeof s->note];
    cairo_set_source_rgb(cr, 0.25, 0.25, 0.25);
    cairo_set_font_size(cr, text_size);
    snprintf(first, sizeof first, "%s", s->note);
    cairo_text_extents(cr, first, &size);
    while (size.width > width - 2 * MARGIN) {
        char *space = strrchr(first, ' ');
        if (space == NULL)
            break;
        *space = 0;
        cairo_text_extents(cr, first, &size);
    }
    draw_words(cr, MARGIN, y, text_size, first);
    const char *rest = s->note + strlen(first);
    draw_words(cr, MARGIN, y + 15, text_size, *rest == ' ' ? rest + 1 : rest);
}

static double height_of(const scene *s)
{
    return HEAD + s->ranks * ROW + AXIS + 16 + NOTE;
}

static void draw_scene(cairo_t *cr, const scene *s, double y, double width,
                       double scale)
{
    cairo_set_source_rgb(cr, 0, 0, 0);
    draw_words(cr, MARGIN, y + 22, title_size, s->title);
    y += HEAD;
    for (int rank = 0; rank < s->ranks; rank++, y += ROW) {
        cairo_set_source_rgb(cr, 0.94, 0.94, 0.94);
        cairo_rectangle(cr, MARGIN + LABEL, y, s->span * scale, ROW - GAP);
        cairo_fill(cr);
        cairo_set_source_rgb(cr, 0, 0, 0);
        draw_words(cr, MARGIN, y + 16, text_size, s->rows[rank].label);
        for (size_t i = 0; i < s->rows[rank].count; i++)
            draw_box(cr, s, &s->rows[rank].boxes[i], y, scale);
    }
    draw_axis(cr, s, y, scale);
    draw_legend(cr, s, y + AXIS);
    draw_note(cr, s, y + AXIS + 20, width);
}

/* Points a unit of time, from the scene with the shortest boxes. */
static double choose_scale(const scene *const *scenes, int count, double *width)
{
    double span = 0, shortest = 0;
    for (int i = 0; i < count; i++) {
        span = fmax(span, scenes[i]->span);
        if (scenes[i]->shortest > 0 &&
            (shortest == 0 || scenes[i]->shortest < shortest))
            shortest = scenes[i]->shortest;
    }
    double drawn = span > 0 && shortest > 0 ? span / shortest * points_per_box : 0;
    drawn = fmin(fmax(drawn, LEAST_WIDTH), MOST_WIDTH);
    *width = drawn + 2 * MARGIN + LABEL + 24;
    return span > 0 ? drawn / span : 1;
}

static cairo_surface_t *open_surface(draw_format format, pst_file_writer *writer,
                                     double width, double height)
{
    switch (format) {
    case DRAW_PDF:
        return cairo_pdf_surface_create_for_stream(write_bytes, writer, width, height);
    case DRAW_PNG:
        return cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width),
                                          (int)ceil(height));
    default:
        return cairo_svg_surface_create_for_stream(write_bytes, writer, width, height);
    }
}

/* What went wrong on the way, which the surface does not know. */
static cairo_status_t draw_all(cairo_surface_t *surface, const scene *const *scenes,
                               int count, double width, double scale)
{
    cairo_t *cr = cairo_create(surface);
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    double y = 0;
    for (int i = 0; i < count; i++) {
        draw_scene(cr, scenes[i], y, width, scale);
        y += height_of(scenes[i]);
    }
    cairo_show_page(cr);
    const cairo_status_t drawn = cairo_status(cr);
    cairo_destroy(cr);
    return drawn;
}

int draw_cairo_format(const char *path, draw_format *format)
{
    static const char *const endings[] = {
        [DRAW_SVG] = ".svg", [DRAW_PDF] = ".pdf", [DRAW_PNG] = ".png"};
    const char *ending = strrchr(path, '.');
    for (int i = 0; ending != NULL && i < 3; i++)
        if (strcmp(ending, endings[i]) == 0) {
            *format = (draw_format)i;
            return 1;
        }
    return 0;
}

pst_status draw_cairo(const scene *const *scenes, int count, draw_format format,
                      const char *path, pst_error *err)
{
    double width, height = 0, scale = choose_scale(scenes, count, &width);
    for (int i = 0; i < count; i++)
        height += height_of(scenes[i]);
    if (format == DRAW_PNG && height > 32000)
        return pst_error_set(
            err, PST_EINVAL,
            "%s: %.0f points high; a PNG holds 32,000: use .svg or .pdf", path, height);
    pst_file_writer *writer;
    pst_status status = pst_file_create(NULL, path, &writer, err);
    if (status != PST_OK)
        return status;
    cairo_surface_t *surface = open_surface(format, writer, width, height);
    cairo_status_t drawn = draw_all(surface, scenes, count, width, scale);
    if (drawn == CAIRO_STATUS_SUCCESS && format == DRAW_PNG)
        drawn = cairo_surface_write_to_png_stream(surface, write_bytes, writer);
    cairo_surface_finish(surface);
    if (drawn == CAIRO_STATUS_SUCCESS)
        drawn = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (drawn == CAIRO_STATUS_SUCCESS || drawn == CAIRO_STATUS_WRITE_ERROR)
        return pst_file_commit(writer, err); /* says which write failed */
    pst_file_discard(writer);
    return pst_error_set(err, PST_ESYSTEM, "%s: cairo: %s", path,
                         cairo_status_to_string(drawn));
}
