/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim.c - picks the subcommand. */
#include <stdio.h>
#include <stdlib.h>
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
    {"place", pipesim_place, "where ranks would stand on a machine's cores"},
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
static const char *const dialect_names[] = {"auto", "new", "old", NULL};
static const char *const policy_names[] = {"stash", "double", NULL};
static const char *const weights_names[] = {"default", "lifo-merged", NULL};

void shape_add_options(shape_options *s, option *table)
{
    /* clang-format off */
    const option rows[SHAPE_OPTION_COUNT - FILE_OPTION_COUNT] = {
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
        {.name = "group", .kind = OPTION_INT, .value = &s->shape.group, .argument = "N",
         .help = "microbatches that go from chunk to chunk, or into an update, together",
         .lowest = 1, .highest = 2147483647},
        {.name = "warmup-extra", .kind = OPTION_INT, .value = &s->shape.warmup_extra,
         .argument = "N", .help = "forwards more in the warm-up (0)", .highest = 65535},
        {.name = "pairs", .kind = OPTION_FLAG, .value = &s->shape.pairs,
         .help = "forwards and backwards of the steady state overlap"},
        {.name = "slices", .kind = OPTION_INT, .value = &s->shape.slices, .argument = "K",
         .help = "parts that sequences are cut into (2 where the schedule has any)",
         .lowest = 1, .highest = 65535},
        {.name = "weights", .kind = OPTION_CHOICE, .value = &s->weights,
         .argument = "WHICH", .help = "which W comes first: default or lifo-merged",
         .choices = weights_names},
        {.name = "memory-limit", .kind = OPTION_STRING, .value = &s->memory,
         .argument = "X",
         .help = "microbatches a rank may hold, as 12 or, in units of p, as 1.5p (the "
                 "schedule's own)"},
        {.name = "freed-at-input", .kind = OPTION_DOUBLE, .value = &s->freed_at_input,
         .argument = "X",
         .help = "share of a held microbatch that I frees, 0 to 1 (0; 0.5 where costs "
                 "tell F, I and W apart)",
         .lowest = 0, .highest = 1, .given = &s->freed_given},
        {.name = "data-parallel", .kind = OPTION_INT, .value = &s->data_parallel,
         .argument = "D",
         .help = "copies of it side by side, with M microbatches each (1; as a file says)",
         .lowest = 1, .highest = 65535},
    };
    /* clang-format on */
    memcpy(table, rows, sizeof rows);
    file_add_options(&s->file, table + SHAPE_OPTION_COUNT - FILE_OPTION_COUNT);
}

void file_add_options(file_options *f, option *table)
{
    /* clang-format off */
    const option rows[FILE_OPTION_COUNT] = {
        {.name = "placement", .kind = OPTION_STRING, .value = &f->placement,
         .argument = "WHAT",
         .help = "of a file: loop, v, wave, bidirectional, or ranks with commas"},
        {.name = "dialect", .kind = OPTION_CHOICE, .value = &f->dialect,
         .argument = "WHICH",
         .help = "of a file: new, old (B the input part, BW the full backward) or auto",
         .choices = dialect_names},
        {.name = "lenient", .kind = OPTION_FLAG, .value = &f->lenient,
         .help = "read what PyTorch's loader reads, and say what is ignored"},
        {.name = "extended", .kind = OPTION_FLAG, .value = &f->extended,
         .help = "files may have EVICT, LOAD and STEP, which PyTorch's grammar lacks"},
        {.name = "weight-policy", .kind = OPTION_CHOICE, .value = &f->weight_policy,
         .argument = "WHICH", .choices = policy_names,
         .help = "of a file with STEP: stash (PipeDream) or double (2BW)"},
    };
    /* clang-format on */
    memcpy(table, rows, sizeof rows);
}

/* "12" or "1.5p" into microbatches; below 0: neither. */
static double memory_limit(const char *text, int ranks)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || !(value > 0) || (*end != 0 && strcmp(end, "p") != 0))
        return -1;
    return *end == 'p' ? value * ranks : value;
}

/* Do costs tell F, I and W apart? Then they are a model's, and I frees what attention
 * saved: about half in a transformer (34h+5as saved, 2h+5as of it freed by I). */
static int are_uneven(const pst_costs *c, int stages)
{
    for (int i = 0; i < stages; i++)
        if (c->forward[i] != c->backward_input[i] ||
            c->forward[i] != c->backward_weight[i])
            return 1;
    return 0;
}

/* Make the list once more, now that its placement is known, for the costs. */
static pst_status follow_costs(shape_options *s, costs *c, const char *text,
                               pst_schedule **schedule, pst_error *err)
{
    pst_costs resolved;
    pst_schedule *again;
    costs own = *c; /* hosts are told of all ranks, and here is one copy's list */
    own.hosts = NULL;
    pst_status status = costs_resolve(&own, *schedule, &resolved, err);
    if (status != PST_OK)
        return status;
    s->shape.costs = &resolved;
    if (!s->freed_given && are_uneven(&resolved, pst_schedule_stages(*schedule)))
        s->shape.freed_at_input = 0.5;
    status = pst_schedule_create(NULL, text, &s->shape, &again, err);
    s->shape.costs = NULL;
    costs_free(&own);
    if (status != PST_OK)
        return status;
    pst_schedule_destroy(*schedule);
    *schedule = again;
    return PST_OK;
}

int shape_make(const command *command, shape_options *s, costs *c, const char *text,
               pst_schedule **out)
{
    pst_error err = PST_ERROR_INIT;
    const pst_schedule_kind *kind = pst_schedule_kind_find(text);
    s->shape.backward_order = (pst_order)s->order;
    s->shape.weights = (pst_weights)s->weights;
    s->shape.freed_at_input = s->freed_at_input;
    if (kind != NULL && (s->shape.ranks == 0 || s->shape.microbatches == 0))
        return options_refuse(command, "%s needs -p P and -m M", text);
    if (s->memory != NULL &&
        (s->shape.memory_limit = memory_limit(s->memory, s->shape.ranks)) < 0)
        return options_refuse(command,
                              "--memory-limit '%s': a number above 0, or one with p "
                              "behind it, as in 1.5p",
                              s->memory);
    if (source_schedule(text, &s->shape, &s->file, out, &err) != PST_OK)
        return say_failure(&err);
    if ((kind == NULL || !kind->uses_costs ||
         follow_costs(s, c, text, out, &err) == PST_OK) &&
        source_replicate(out, s->data_parallel, &err) == PST_OK)
        return OPTIONS_GO_ON;
    pst_schedule_destroy(*out);
    return say_failure(&err);
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
