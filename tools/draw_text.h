/* SPDX-License-Identifier: BSD-3-Clause */
/* draw_text.h - a scene as lines of text. */
#ifndef PST_TOOLS_DRAW_TEXT_H
#define PST_TOOLS_DRAW_TEXT_H

#include "tools/scene.h"

/* When text may have colours; the choices of --color in this order. */
typedef enum draw_color {
    DRAW_COLOR_AUTO,
    DRAW_COLOR_ALWAYS,
    DRAW_COLOR_NEVER
} draw_color;
extern const char *const draw_color_names[];

/* Columns of standard output: the terminal's, else COLUMNS, else 80. */
int draw_text_columns(void);

/* Does standard output take colours? AUTO: a terminal, unless NO_COLOR is set. */
int draw_text_in_color(draw_color wish);

/*
 * The picture, at most `columns` wide, times scaled to fit; malloc's memory, the
 * caller's to free. Errors: PST_ENOMEM.
 */
pst_status draw_text(const scene *s, int columns, int color, char **text,
                     pst_error *err);

#endif
