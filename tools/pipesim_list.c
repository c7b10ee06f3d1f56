/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim_list.c - the schedules that have a name. */
#include <stdio.h>

#include "tools/pipesim.h"

static const command list = {
    .name = "pipesim list",
    .summary =
        "Lists the schedules that have a name, with their aliases, where they come\n"
        "from, the shapes that they take and what they cost.",
    .print_version = pipesim_version,
};

int pipesim_list(int argc, char **argv)
{
    int count, status = options_parse(&list, argc, argv, NULL, &count);
    if (status != OPTIONS_GO_ON)
        return status;
    const pst_schedule_kind *kind;
    for (size_t i = 0; (kind = pst_schedule_kind_at(i)) != NULL; i++) {
        printf("%s%s - %s\n  aliases  ", i > 0 ? "\n" : "", kind->name, kind->summary);
        for (const char *const *alias = kind->aliases; *alias != NULL; alias++)
            printf("%s%s", alias != kind->aliases ? ", " : "", *alias);
        printf("\n  source   %s\n  needs    %s\n  costs    %s\n", kind->source,
               kind->needs, kind->costs);
    }
    return 0;
}
