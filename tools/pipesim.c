/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim.c - picks the subcommand. */
#include <stdio.h>
#include <string.h>

#include <penstock/version.h>

#include "tools/pipesim.h"
#include "tools/say.h"
#include "tools/source.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} subcommands[] = {
    {"list", pipesim_list, "the schedules that have a name"},
    {"draw", pipesim_draw, "draw a schedule as text, SVG, PDF, PNG or a trace"},
    {"stats", pipesim_stats, "time, idle time and memory of a schedule"},
    {"check", pipesim_check, "say whether a CSV file can be run, and why not"},
    {"export", pipesim_export, "write a schedule as CSV in PyTorch's grammar"},
};

enum { SUBCOMMAND_COUNT = sizeof subcommands / sizeof *subcommands };

void pipesim_version(void)
{
    printf("pipesim (Penstock) %s\n", pst_version_string());
}

static void print_help(void)
{
    printf("Usage: pipesim COMMAND [OPTION ...]\n\n"
           "Simulates, draws, checks and exports pipeline schedules.\n\nCommands:\n");
    for (int i = 0; i < SUBCOMMAND_COUNT; i++)
        printf("  %-10s%s\n", subcommands[i].name, subcommands[i].summary);
    printf("\n'pipesim COMMAND --help' explains a command.\n");
}

static const char *const order_names[] = {"default", "ascending", "descending", NULL};

void shape_add_options(shape_options *s, option *table)
{
    /* clang-format off */
    const option rows[SHAPE_OPTION_COUNT] = {
        {.name = "ranks", .letter = 'p', .kind = OPTION_INT, .value = &s->shape.ranks,
         .argument = "P", .help = "ranks", .lowest = 1, .highest = 65535},
        {.name = "microbatches", .letter = 'm', .kind = OPTION_INT,
         .value = &s->shape.microbatches, .argument = "M", .help = "microbatches",
         .lowest = 1, .highest = 2147483647},
        {.name = "chunks", .letter = 'v', .kind = OPTION_INT, .value = &s->shape.chunks,
         .argument = "V", .help = "stages on each rank (the schedule's own)", .lowest = 1,
         .highest = 65535},
        {.name = "backward-order", .kind = OPTION_CHOICE, .value = &s->order,
         .argument = "ORDER",
         .help = "of microbatches: ascending or descending (the schedule's own)",
         .choices = order_names},
    };
    /* clang-format on */
    memcpy(table, rows, sizeof rows);
}

int shape_make(const command *command, shape_options *s, const char *text,
               pst_schedule **out)
{
    pst_error err = PST_ERROR_INIT;
    s->shape.backward_order = (pst_order)s->order;
    if (pst_schedule_kind_find(text) != NULL &&
        (s->shape.ranks == 0 || s->shape.microbatches == 0))
        return options_refuse(command, "%s needs -p P and -m M", text);
    if (source_schedule(text, &s->shape, out, &err) != PST_OK)
        return say_failure(&err);
    return OPTIONS_GO_ON;
}

int main(int argc, char **argv)
{
    say_program("pipesim");
    if (argc < 2) {
        print_help();
        return say_finish(2);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help();
        return say_finish(0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        pipesim_version();
        return say_finish(0);
    }
    const char *names[SUBCOMMAND_COUNT + 1] = {NULL};
    for (int i = 0; i < SUBCOMMAND_COUNT; i++) {
        names[i] = subcommands[i].name;
        if (strcmp(argv[1], names[i]) == 0)
            return say_finish(subcommands[i].run(argc - 1, argv + 1));
    }
    const char *nearest = options_nearest(argv[1], names);
    if (nearest != NULL)
        say_error("unknown command '%s'; did you mean '%s'?", argv[1], nearest);
    else
        say_error("unknown command '%s'; see 'pipesim --help'", argv[1]);
    return 2;
}
