/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.c - the COSTS options. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/costs.h"

void costs_options(costs *c, option *table)
{
    /* clang-format off */
    const option rows[COSTS_OPTION_COUNT] = {
        {.name = "forward", .kind = OPTION_STRING, .value = &c->forward,
         .argument = "X[,X...]",
         .help = "time of F: one number, one a rank, or one a stage (1)"},
        {.name = "backward-input", .kind = OPTION_STRING, .value = &c->backward_input,
         .argument = "X[,X...]", .help = "time of I; B takes I + W (1)"},
        {.name = "backward-weight", .kind = OPTION_STRING, .value = &c->backward_weight,
         .argument = "X[,X...]", .help = "time of W (1)"},
        {.name = "pair", .kind = OPTION_DOUBLE, .value = &c->pair, .argument = "X",
         .help = "time of an overlapped pair (the sum of its parts)",
         .highest = INFINITY},
        {.name = "latency", .kind = OPTION_DOUBLE, .value = &c->latency, .argument = "X",
         .help = "time of a message between ranks (0)", .highest = INFINITY},
        {.name = "bandwidth", .kind = OPTION_DOUBLE, .value = &c->bandwidth,
         .argument = "X", .help = "bytes of a message per unit of time (no limit)",
         .highest = INFINITY},
        {.name = "message-bytes", .kind = OPTION_DOUBLE, .value = &c->message_bytes,
         .argument = "N", .help = "bytes of one microbatch between two stages (0)",
         .highest = INFINITY},
        {.name = "iterations", .kind = OPTION_INT, .value = &c->iterations,
         .argument = "N", .help = "run the list N times back to back (1)", .lowest = 1,
         .highest = 1000000},
    };
    /* clang-format on */
    memcpy(table, rows, sizeof rows);
}

/* A number and the comma or end behind it; false where there is none. */
static int take_number(const char **text, double *value)
{
    char *end;
    *value = strtod(*text, &end);
    if (end == *text || (*end != ',' && *end != 0) || !isfinite(*value) || *value < 0)
        return 0;
    *text = *end == ',' ? end + 1 : end;
    return end[0] == 0 || end[1] != 0;
}

static pst_status resolve_list(const char *name, const char *text,
                               const pst_schedule *schedule, double *out,
                               pst_error *err)
{
    int ranks = pst_schedule_ranks(schedule), stages = pst_schedule_stages(schedule);
    int count = 0;
    const char *rest = text;
    double *values = calloc((size_t)stages + 1, sizeof *values);
    if (values == NULL)
        return pst_error_no_memory(err, "costs", (size_t)stages * sizeof *values);
    do {
        double value;
        if (!take_number(&rest, &value)) {
            free(values);
            return pst_error_set(err, PST_EINVAL,
                                 "--%s '%s': must be numbers of at least 0 with commas "
                                 "between them",
                                 name, text);
        }
        values[count < stages ? count : stages] = value;
        count++;
    } while (*rest != 0);
    if (count != 1 && count != ranks && count != stages) {
        free(values);
        return pst_error_set(
            err, PST_EINVAL,
            "--%s '%s': %d numbers; give 1, or one a rank (%d), or one a "
            "stage (%d)",
            name, text, count, ranks, stages);
    }
    for (int stage = 0; stage < stages; stage++) {
        int rank = pst_schedule_rank_of(schedule, stage);
        /* A stage of a replica costs the whole, a slice its part; copies side by side
         * have ranks of their own. */
        const double replicas = (double)pst_schedule_replicas(schedule) /
                                pst_schedule_data_parallel(schedule);
        const double parts =
            (double)stages / ranks / replicas * pst_schedule_slices(schedule);
        if (count == stages && stages != ranks)
            out[stage] = values[stage] / pst_schedule_slices(schedule);
        else
            out[stage] = values[count == 1 || rank < 0 ? 0 : rank] / parts;
    }
    free(values);
    return PST_OK;
}

pst_status costs_resolve(costs *c, const pst_schedule *schedule, pst_costs *out,
                         pst_error *err)
{
    size_t stages = (size_t)pst_schedule_stages(schedule);
    c->lists = calloc(3 * stages, sizeof *c->lists);
    if (c->lists == NULL)
        return pst_error_no_memory(err, "costs", 3 * stages * sizeof *c->lists);
    double *f = c->lists, *i = f + stages, *w = i + stages;
    pst_status status;
    if ((status = resolve_list("forward", c->forward, schedule, f, err)) ||
        (status =
             resolve_list("backward-input", c->backward_input, schedule, i, err)) ||
        (status =
             resolve_list("backward-weight", c->backward_weight, schedule, w, err))) {
        costs_free(c);
        return status;
    }
    *out = (pst_costs){.forward = f,
                       .backward_input = i,
                       .backward_weight = w,
                       .pair = c->pair,
                       .latency = c->latency,
                       .bandwidth = c->bandwidth,
                       .message_bytes = c->message_bytes,
                       .iterations = c->iterations};
    return PST_OK;
}

void costs_free(costs *c)
{
    free(c->lists);
    c->lists = NULL;
}

char *costs_text(const costs *c, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "F %s, I %s, W %s", c->forward,
                                   c->backward_input, c->backward_weight);
    if (c->pair > 0 && used < size)
        used += (size_t)snprintf(text + used, size - used, ", pair %g", c->pair);
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, ", latency %g", c->latency);
    if (c->bandwidth > 0 && used < size)
        used += (size_t)snprintf(text + used, size - used, ", %g bytes at %g a unit",
                                 c->message_bytes, c->bandwidth);
    if (c->iterations > 1 && used < size)
        snprintf(text + used, size - used, ", %d iterations", c->iterations);
    return text;
}
