/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim_place.c - where ranks would stand on this machine, or on another. */
#include <stdio.h>
#include <stdlib.h>

#include <penstock/pipeline.h>

#include "tools/binding.h"
#include "tools/pipesim.h"
#include "tools/say.h"

int pipesim_place(int argc, char **argv)
{
    pst_pipeline_options wanted = {.bind = PST_BIND_AUTO};
    const char *bind = NULL;
    int ranks = 0, count;
    const option table[] = {
        {.name = "ranks",
         .letter = 'p',
         .kind = OPTION_INT,
         .value = &ranks,
         .argument = "P",
         .help = "ranks",
         .lowest = 1,
         .highest = 65535},
        {.name = "bind",
         .kind = OPTION_STRING,
         .value = &bind,
         .argument = "WHERE",
         .help = "auto, none, core, or CPUs, as in 0,2,4-5 or 0-1:2-3 (auto)",
         .variable = "PENSTOCK_BIND"},
        {.name = "team",
         .kind = OPTION_INT,
         .value = &wanted.team,
         .argument = "K",
         .help = "cores of each rank (as many as there are)",
         .lowest = 1,
         .highest = 1024},
        {.name = "topology",
         .kind = OPTION_STRING,
         .value = &wanted.topology_synthetic,
         .argument = "TEXT",
         .help = "of a machine in hwloc's synthetic form (this machine)"},
        {.name = "topology-xml",
         .kind = OPTION_STRING,
         .value = &wanted.topology_xml,
         .argument = "FILE",
         .help = "of a machine, as 'lstopo FILE.xml' writes it"},
    };
    const command command = {
        .name = "pipesim place",
        .summary = "Says which CPUs and which memory each rank would be bound to.",
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .print_version = pipesim_version};
    int status = options_parse(&command, argc, argv, NULL, &count);
    if (status == OPTIONS_GO_ON && ranks == 0)
        status = options_refuse(&command, "-p P is missing");
    if (status == OPTIONS_GO_ON)
        status = binding_parse(&command, bind, &wanted);
    if (status != OPTIONS_GO_ON)
        return status;
    pst_error err = PST_ERROR_INIT;
    pst_worker_info *places = calloc((size_t)ranks, sizeof *places);
    if (places == NULL) {
        pst_error_no_memory(&err, "places", (size_t)ranks * sizeof *places);
        return say_failure(&err);
    }
    if ((wanted.team == 0 &&
         pst_pipeline_team(NULL, ranks, &wanted, &wanted.team, &err) != PST_OK) ||
        pst_pipeline_places(NULL, ranks, &wanted, places, &err) != PST_OK) {
        free(places);
        return say_failure(&err);
    }
    for (int rank = 0; rank < ranks; rank++)
        binding_print(rank, &places[rank]);
    free(places);
    return 0;
}
