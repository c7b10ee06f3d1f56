/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim_check.c - can this file be run, and why not? */
#include <stdio.h>

#include <penstock/check.h>
#include <penstock/lower.h>
#include <penstock/report_json.h>

#include "tools/pipesim.h"
#include "tools/say.h"
#include "tools/source.h"

static void print_verdict(const pst_schedule *schedule, const pst_error *rendezvous,
                          int least_capacity)
{
    printf("%s: valid: %d ranks, %d stages, %d microbatches, %zu actions\n",
           pst_schedule_name(schedule), pst_schedule_ranks(schedule),
           pst_schedule_stages(schedule), pst_schedule_total_microbatches(schedule),
           pst_schedule_action_count(schedule));
    printf("sends that are buffered: no deadlock\n");
    if (rendezvous->status == PST_OK)
        printf("sends that wait for their receiver: no deadlock\n");
    else
        printf("sends that wait for their receiver, each receive just before its use: "
               "%s\n",
               rendezvous->text);
    printf("least capacity of a channel where sends wait for room: %d message%s\n",
           least_capacity, least_capacity == 1 ? "" : "s");
}

static pst_status report_json(const pst_schedule *schedule, const pst_error *found,
                              const pst_error *rendezvous, int least_capacity,
                              pst_error *err)
{
    char *text;
    pst_status status =
        pst_report_check(NULL, schedule, found, rendezvous, least_capacity, &text, err);
    if (status == PST_OK) {
        puts(text);
        pst_release(NULL, text);
    }
    return status;
}

/* Everything there is to say on standard output, or a failure; the exit status. */
static int report(const pst_schedule *schedule, const pst_error *found,
                  const pst_error *rendezvous, int least_capacity, int json)
{
    pst_error err = PST_ERROR_INIT;
    /* Without memory nothing has been found out. */
    if (found->status == PST_ENOMEM || (found->status != PST_OK && !json))
        return say_failure(found);
    if (rendezvous->status == PST_ENOMEM)
        return say_failure(rendezvous);
    if (!json)
        print_verdict(schedule, rendezvous, least_capacity);
    else if (report_json(schedule, found, rendezvous, least_capacity, &err) != PST_OK)
        return say_failure(&err);
    return found->status == PST_OK ? 0 : 1;
}

int pipesim_check(int argc, char **argv)
{
    pst_shape shape = {.ranks = 0};
    file_options file = {.dialect = PST_CSV_AUTO};
    int json = 0, memory_limit = 0, tag_bound = -1, channel_capacity = -1;
    int least_capacity = 0, count;
    /* clang-format off */
    option table[FILE_OPTION_COUNT + 6] = {
        {.name = "microbatches", .letter = 'm', .kind = OPTION_INT,
         .value = &shape.microbatches,
         .argument = "M", .help = "how many there must be (as many as the file has)",
         .lowest = 1, .highest = 2147483647},
        {.name = "slices", .kind = OPTION_INT, .value = &shape.slices, .argument = "K",
         .help = "parts that sequences are cut into (as the file says)", .lowest = 1,
         .highest = 65535},
        {.name = "memory-limit", .kind = OPTION_INT, .value = &memory_limit,
         .argument = "N", .help = "stage-microbatches that a rank may hold (any number)",
         .lowest = 1, .highest = 2147483647},
        {.name = "tag-bound", .kind = OPTION_INT, .value = &tag_bound,
         .argument = "N", .help = "highest tag that a message may have (any)",
         .lowest = 0, .highest = 2147483647},
        {.name = "channel-capacity", .kind = OPTION_INT, .value = &channel_capacity,
         .argument = "N", .help = "messages under way from a rank to another before a send waits (any)",
         .lowest = 0, .highest = 2147483647},
        {.name = "json", .kind = OPTION_FLAG, .value = &json,
         .help = "one JSON object instead of sentences"},
    };
    /* clang-format on */
    file_add_options(&file, table + 6);
    const command command = {
        .name = "pipesim check",
        .operands = "FILE.csv",
        .summary =
            "Says whether the schedule in a CSV file ('-': standard input) can be "
            "run: exit\nstatus 0 if so, 1 if not, with the place and the reason.",
        .fewest_operands = 1,
        .most_operands = 1,
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .print_version = pipesim_version};
    const char *path;
    int exit_status = options_parse(&command, argc, argv, &path, &count);
    if (exit_status != OPTIONS_GO_ON)
        return exit_status;
    pst_schedule *schedule = NULL;
    pst_error found = PST_ERROR_INIT, rendezvous = PST_ERROR_INIT;
    pst_status status = source_file(path, &shape, &file, &schedule, &found);
    if (status == PST_OK)
        status = pst_schedule_check(NULL, schedule, &found);
    if (status == PST_OK)
        status = source_check_placement(schedule, &file, &found);
    if (status == PST_OK && memory_limit > 0)
        status = pst_schedule_check_memory(schedule, memory_limit, &found);
    if (status == PST_OK && tag_bound >= 0)
        status = pst_schedule_check_tags(schedule, tag_bound, &found);
    if (status == PST_OK && channel_capacity >= 0)
        status = pst_schedule_check_capacity(NULL, schedule, channel_capacity, &found);
    if (status == PST_OK)
        status = pst_schedule_least_capacity(NULL, schedule, &least_capacity, &found);
    if (status == PST_OK)
        pst_schedule_check_rendezvous(NULL, schedule, &rendezvous);
    exit_status = report(schedule, &found, &rendezvous, least_capacity, json);
    pst_schedule_destroy(schedule);
    return exit_status;
}
