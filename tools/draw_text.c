/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * draw_text.c - a scene as lines of text.
 *
 * A box is as wide as its time allows: "F3----" with its operation's letter, its
 * microbatch where there is room, and the operation's filling; idle time is dots. Two
 * that overlap have a half each.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/draw_text.h"

enum { FEWEST_COLUMNS = 20, MOST_PER_UNIT = 4, DEFAULT_COLUMNS = 80 };

const char *const draw_color_names[] = {"auto", "always", "never", NULL};

/* A string that grows; text is NULL once memory was out. */
typedef struct buffer {
    char *text;
    size_t used, room;
} buffer;

static void put(buffer *b, const char *format, ...) PST_PRINTF(2, 3);

static void put(buffer *b, const char *format, ...)
{
    char part[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(part, sizeof part, format, args);
    va_end(args);
    size_t more = (size_t)length < sizeof part ? (size_t)length : sizeof part - 1;
    if (b->text == NULL)
        return;
    if (b->used + more + 1 > b->room) {
        b->room = 2 * (b->used + more + 1);
        char *larger = realloc(b->text, b->room);
        if (larger == NULL)
            free(b->text);
        b->text = larger;
        if (larger == NULL)
            return;
    }
    memcpy(b->text + b->used, part, more + 1);
    b->used += more;
}

int draw_text_columns(void)
{
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    int given = columns != NULL ? atoi(columns) : 0;
    return given > 0 ? given : DEFAULT_COLUMNS;
}

int draw_text_in_color(draw_color wish)
{
    const char *no_color = getenv("NO_COLOR");
    if (wish != DRAW_COLOR_AUTO)
        return wish == DRAW_COLOR_ALWAYS;
    return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == 0);
}

static char filling(int op)
{
    switch (op) {
    case PST_OP_FORWARD:
        return '-';
    case PST_OP_BACKWARD:
        return '=';
    case PST_OP_BACKWARD_INPUT:
        return '~';
    default:
        return '+';
    }
}

/* Columns a unit of time: a whole number while there is room for one. */
static double scale_of(const scene *s, int width)
{
    if (s->span <= 0)
        return 1;
    double scale = (double)width / s->span;
    if (s->unit[0] != 0 || s->shortest <= 0)
        return scale;
    double per_shortest = scale * s->shortest;
    if (per_shortest >= MOST_PER_UNIT)
        return MOST_PER_UNIT / s->shortest;
    return per_shortest >= 1 ? (double)(int)per_shortest / s->shortest : scale;
}

/* What stands in `columns` columns of a box. */
static void box_text(const scene_box *box, size_t columns, char *out)
{
    char label[32];
    const char *letter = pst_op_describe(box->action.op)->csv;
    snprintf(label, sizeof label, "%s%" PRIu32, letter, box->action.microbatch);
    if (strlen(label) > columns)
        snprintf(label, sizeof label, "%s", letter);
    size_t length = strlen(label);
    for (size_t i = 0; i < columns; i++)
        out[i] = i < length ? label[i] : filling(box->action.op);
}

/* Text and box (or NULL) of each column of a row. */
static void lay_row(const scene_row *row, double scale, size_t width, char *text,
                    const scene_box **owner)
{
    memset(text, '.', width);
    memset(owner, 0, width * sizeof *owner);
    for (size_t i = 0; i < row->count; i++) {
        const scene_box *box = &row->boxes[i];
        size_t first = (size_t)(box->start * scale + 0.5);
        size_t last = (size_t)(box->end * scale + 0.5);
        if (last == first)
            last++; /* too short to see is still there */
        if (first >= width)
            first = width - 1;
        if (last > width)
            last = width;
        const size_t middle = (first + last + 1) / 2;
        if (box->part == 1)
            last = middle;
        else if (box->part == 2 && middle < last)
            first = middle;
        box_text(box, last - first, text + first);
        for (size_t k = first; k < last; k++)
            owner[k] = box;
    }
}

/* Later chunks of a rank are darker. */
static uint32_t color_of(const scene *s, const scene_box *box)
{
    uint32_t color = pst_op_describe(box->action.op)->color;
    int chunk = box->action.stage / (s->ranks > 0 ? s->ranks : 1);
    for (int i = 0; i < chunk && i < 3; i++)
        color = (color >> 1 & 0x7f7f7fu) + (color >> 2 & 0x3f3f3fu);
    return color;
}

static void put_row(buffer *b, const scene *s, const char *text,
                    const scene_box *const *owner, size_t width, int color)
{
    for (size_t i = 0; i < width;) {
        size_t end = i + 1;
        while (end < width && owner[end] == owner[i])
            end++;
        if (color && owner[i] != NULL) {
            uint32_t c = color_of(s, owner[i]);
            put(b, "\x1b[30;48;2;%u;%u;%um", c >> 16 & 255u, c >> 8 & 255u, c & 255u);
        }
        for (; i < end; i++)
            put(b, "%c",
                color && owner[i] != NULL && strchr("-=~+", text[i]) != NULL ? ' '
                                                                             : text[i]);
        if (color && owner[end - 1] != NULL)
            put(b, "\x1b[0m");
    }
    put(b, "\n");
}

/* A line cut to `columns`, with dots where it was cut. */
static void put_cut(buffer *b, const char *line, int columns)
{
    if ((int)strlen(line) <= columns)
        put(b, "%s\n", line);
    else
        put(b, "%.*s...\n", columns - 3, line);
}

/* The note, broken between words. */
static void put_note(buffer *b, const char *note, int columns)
{
    while (*note != 0) {
        size_t length = strlen(note), most = (size_t)columns;
        if (length > most) {
            length = most;
            while (length > 0 && note[length] != ' ')
                length--;
            if (length == 0)
                length = most;
        }
        put(b, "%.*s\n", (int)length, note);
        note += length;
        while (*note == ' ')
            note++;
    }
}

pst_status draw_text(const scene *s, int columns, int color, char **text,
                     pst_error *err)
{
    if (columns < FEWEST_COLUMNS)
        columns = FEWEST_COLUMNS;
    int label = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        label = (int)strlen(s->rows[rank].label) > label
                    ? (int)strlen(s->rows[rank].label)
                    : label;
    size_t most = (size_t)(columns - label - 1);
    double scale = scale_of(s, (int)most);
    size_t width = (size_t)(s->span * scale + 0.5);
    if (width < 1 || width > most)
        width = width < 1 ? 1 : most;
    buffer b = {.text = calloc(1, 256), .room = 256};
    char *line = malloc(width);
    const scene_box **owner = malloc(width * sizeof *owner);
    if (line != NULL && owner != NULL) {
        put_cut(&b, s->title, columns);
        for (int rank = 0; rank < s->ranks; rank++) {
            lay_row(&s->rows[rank], scale, width, line, owner);
            put(&b, "%-*s ", label, s->rows[rank].label);
            put_row(&b, s, line, owner, width, color);
        }
        put_note(&b, s->note, columns);
    }
    int failed = line == NULL || owner == NULL || b.text == NULL;
    free(line);
    free(owner);
    if (failed) {
        free(b.text);
        return pst_error_no_memory(err, "a picture", (size_t)s->ranks * width);
    }
    *text = b.text;
    return PST_OK;
}
