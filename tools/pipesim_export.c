/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim_export.c - a schedule as CSV in PyTorch's grammar. */
#include <stdio.h>

#include <penstock/lower.h>
#include <penstock/schedule_csv.h>

#include "tools/pipesim.h"
#include "tools/say.h"

static const char *const mode_names[] = {"early", "in-time", "parity", NULL};

static pst_status write_list(const pst_schedule *schedule, int with_messages, int mode,
                             const char *path, pst_error *err)
{
    pst_schedule *lowered;
    if (!with_messages)
        return pst_schedule_write_csv(NULL, schedule, path, err);
    pst_status status =
        pst_schedule_lower_as(NULL, schedule, (pst_lowering)mode, &lowered, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_write_csv(NULL, lowered, path, err);
    pst_schedule_destroy(lowered);
    return status;
}

int pipesim_export(int argc, char **argv)
{
    shape_options shape = {.order = 0};
    int with_messages = 0, mode = 0, mode_given = 0, count;
    const char *path = "/dev/stdout", *operand;
    /* clang-format off */
    costs c = COSTS_INIT;
    option table[SHAPE_OPTION_COUNT + COSTS_OPTION_COUNT + 3] = {
        {.name = "output", .letter = 'o', .kind = OPTION_STRING, .value = &path,
         .argument = "FILE.csv", .help = "where to write (standard output)"},
        {.name = "comms", .kind = OPTION_FLAG, .value = &with_messages,
         .help = "with SEND and RECV cells, in an order that cannot deadlock"},
        {.name = "receives", .kind = OPTION_CHOICE, .value = &mode, .argument = "WHEN",
         .help = "of --comms: early, in-time (for buffered sends), or parity (early)",
         .choices = mode_names, .given = &mode_given},
    };
    /* clang-format on */
    shape_add_options(&shape, table + 3);
    costs_options(&c, table + 3 + SHAPE_OPTION_COUNT);
    const command command = {
        .name = "pipesim export",
        .operands = "SCHEDULE",
        .summary =
            "Writes a schedule, a name or a CSV file, in PyTorch's CSV grammar: one "
            "line a\nrank, cells in order.",
        .fewest_operands = 1,
        .most_operands = 1,
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .print_version = pipesim_version};
    pst_schedule *schedule;
    int status = options_parse(&command, argc, argv, &operand, &count);
    if (status == OPTIONS_GO_ON)
        status = shape_make(&command, &shape, &c, operand, &schedule);
    if (status != OPTIONS_GO_ON)
        return status;
    pst_error err = PST_ERROR_INIT;
    if (pst_schedule_is_extended(schedule) && !shape.file.extended)
        pst_error_set(
            &err, PST_EINVAL,
            "%s has EVICT, LOAD or STEP, which PyTorch's loader does not know; "
            "--extended writes them",
            pst_schedule_name(schedule));
    else
        write_list(schedule, with_messages || mode_given, mode, path, &err);
    status = err.status == PST_OK ? 0 : say_failure(&err);
    pst_schedule_destroy(schedule);
    return status;
}
