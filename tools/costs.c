/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.c - the COSTS options. */
#include <math.h>
#include <stdint.h>
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
        {.name = "hosts", .kind = OPTION_STRING, .value = &c->hosts,
         .argument = "N|H,H...",
         .help = "N hosts, or the host of each rank, with links between them"},
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

/* 0: there is none; one number is how many, ranks that follow each other together. */
static int read_hosts(const char *text, int ranks, int *host_of_rank)
{
    double values[2] = {0, 0};
    int count = 0, hosts = 0;
    for (const char *rest = text; count == 0 || *rest != 0; count++) {
        double *value = &values[count > 0];
        if (count == ranks + 1 || !take_number(&rest, value) ||
            *value != floor(*value) || *value > ranks)
            return 0;
        if (count < ranks)
            host_of_rank[count] = (int)*value;
    }
    if (count == 1) {
        hosts = (int)values[0];
        for (int rank = 0; rank < ranks; rank++)
            host_of_rank[rank] = (int)((int64_t)rank * hosts / ranks);
        return hosts;
    }
    for (int rank = 0; rank < ranks; rank++)
        hosts = host_of_rank[rank] >= hosts ? host_of_rank[rank] + 1 : hosts;
    return count == ranks && hosts <= ranks ? hosts : 0;
}

static pst_status resolve_hosts(costs *c, const pst_schedule *schedule, pst_costs *out,
                                pst_error *err)
{
    const int ranks = pst_schedule_ranks(schedule);
    if (c->hosts == NULL)
        return PST_OK;
    c->host_of_rank = calloc((size_t)ranks + 1, sizeof *c->host_of_rank);
    if (c->host_of_rank == NULL)
        return pst_error_no_memory(err, "hosts", (size_t)ranks * sizeof(int));
    const int hosts = read_hosts(c->hosts, ranks, c->host_of_rank);
    if (hosts == 0)
        return pst_error_set(err, PST_EINVAL,
                             "--hosts '%s': give how many (1 to %d), or for each of %d "
                             "ranks the number of its host, from 0",
                             c->hosts, ranks, ranks);
    c->network = (pst_network){.hosts = hosts, .host_of_rank = c->host_of_rank};
    out->network = &c->network;
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
    status = resolve_hosts(c, schedule, out, err);
    if (status != PST_OK)
        costs_free(c);
    return status;
}

void costs_free(costs *c)
{
    free(c->lists);
    free(c->host_of_rank);
    c->lists = NULL;
    c->host_of_rank = NULL;
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
    if (c->hosts != NULL && used < size)
        used += (size_t)snprintf(text + used, size - used, ", hosts %s", c->hosts);
    if (c->iterations > 1 && used < size)
        snprintf(text + used, size - used, ", %d iterations", c->iterations);
    return text;
}
