/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim.h - what the subcommands of pipesim share. */
#ifndef PST_TOOLS_PIPESIM_H
#define PST_TOOLS_PIPESIM_H

#include <penstock/registry.h>

#include "tools/options.h"

/* Each takes argv with the subcommand's name at argv[0], and returns the exit status.
 */
int pipesim_list(int argc, char **argv);
int pipesim_draw(int argc, char **argv);
int pipesim_stats(int argc, char **argv);
int pipesim_check(int argc, char **argv);
int pipesim_export(int argc, char **argv);

void pipesim_version(void);

/* -p, -m, -v and --backward-order: a schedule's shape. */
typedef struct shape_options {
    pst_shape shape;
    int order; /* enum pst_order                                               */
} shape_options;

enum { SHAPE_OPTION_COUNT = 4 };
void shape_add_options(shape_options *s, option *table);

/*
 * The list that SCHEDULE and the options mean. A named one needs -p and -m. Returns
 * OPTIONS_GO_ON or an exit status, after a message.
 */
int shape_make(const command *command, shape_options *s, const char *text,
               pst_schedule **out);

#endif
