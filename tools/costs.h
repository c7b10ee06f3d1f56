/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.h - the COSTS options: what an action and a message take. */
#ifndef PST_TOOLS_COSTS_H
#define PST_TOOLS_COSTS_H

#include <penstock/simulate.h>

#include "tools/options.h"

/* As the user wrote them. Start from COSTS_INIT. */
typedef struct costs {
    const char *forward;
    const char *backward_input;
    const char *backward_weight;
    double pair;
    double latency;
    double bandwidth;
    double message_bytes;
    int iterations;
    const char *hosts;
    double *lists;     /* [3][stages] after costs_resolve(); costs_free()          */
    int *host_of_rank; /* the same, where there are hosts                      */
    pst_network network;
} costs;

#define COSTS_INIT                                                                     \
    {                                                                                  \
        .forward = "1", .backward_input = "1", .backward_weight = "1", .iterations = 1 \
    }

enum { COSTS_OPTION_COUNT = 9 };

/* Their rows, into table[0 .. COSTS_OPTION_COUNT - 1]. */
void costs_options(costs *c, option *table);

/*
 * For `schedule`: one number holds for all; as many as ranks, each for its rank; as
 * many as stages, each for its stage. A number is the time of a whole rank and
 * microbatch (a chunk takes 1/v of it), but one given for a stage is that stage's own.
 * `out` borrows from `c` until costs_free().
 * Errors: PST_EINVAL, PST_ENOMEM.
 */
pst_status costs_resolve(costs *c, const pst_schedule *schedule, pst_costs *out,
                         pst_error *err);
void costs_free(costs *c);

/* "F 1, I 1, W 1, latency 0" into text; returns it. */
char *costs_text(const costs *c, char *text, size_t size);

#endif
