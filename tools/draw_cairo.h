/* SPDX-License-Identifier: BSD-3-Clause */
/* draw_cairo.h - scenes as a picture file: SVG, PDF or PNG. */
#ifndef PST_TOOLS_DRAW_CAIRO_H
#define PST_TOOLS_DRAW_CAIRO_H

#include "tools/scene.h"

typedef enum draw_format { DRAW_SVG, DRAW_PDF, DRAW_PNG } draw_format;

/* The format that a path's ending names; 0: none. */
int draw_cairo_format(const char *path, draw_format *format);

/* Scenes below each other on one scale of time where their units agree; written whole
 * or not at all. Errors: PST_EIO, PST_ENOMEM, PST_ESYSTEM (cairo's own word). */
pst_status draw_cairo(const scene *const *scenes, int count, draw_format format,
                      const char *path, pst_error *err);

#endif
