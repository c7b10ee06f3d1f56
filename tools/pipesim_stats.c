/* SPDX-License-Identifier: BSD-3-Clause */
/* pipesim_stats.c - what a schedule costs in time and memory. */
#include <stdio.h>

#include <penstock/report_json.h>

#include "tools/costs.h"
#include "tools/pipesim.h"
#include "tools/say.h"

/* Theory's word, where every stage costs the same and nothing else was asked for. */
static int find_closed_form(const pst_schedule *schedule, const shape_options *shape,
                            const pst_costs *costs, pst_closed_form *form)
{
    int stages = pst_schedule_stages(schedule), ranks = pst_schedule_ranks(schedule);
    for (int i = 1; i < stages; i++)
        if (costs->forward[i] != costs->forward[0] ||
            costs->backward_input[i] != costs->backward_input[0] ||
            costs->backward_weight[i] != costs->backward_weight[0])
            return 0;
    if (costs->iterations > 1 || costs->bandwidth > 0 || costs->network != NULL ||
        pst_schedule_file(schedule) != NULL)
        return 0;
    pst_shape full = shape->shape;
    const int copies = pst_schedule_data_parallel(schedule);
    full.ranks = ranks / copies;
    full.microbatches = pst_schedule_total_microbatches(schedule) / copies;
    full.chunks = stages / ranks;
    return pst_schedule_closed_form(pst_schedule_name(schedule), &full,
                                    costs->forward[0], costs->backward_input[0],
                                    costs->backward_weight[0], costs->latency, form);
}

static void print_links(const pst_simulation *s)
{
    const char *word = "links";
    for (int i = 0; i < s->hosts * s->hosts; i++) {
        if (s->link_busy[i] == 0)
            continue;
        printf("%-14sfrom host %d to host %d: kept for %g (%.1f %% of the makespan); "
               "a message waited for %g at most\n",
               word, i / s->hosts, i % s->hosts, s->link_busy[i],
               100 * s->link_busy[i] / s->makespan, s->link_wait[i]);
        word = "";
    }
}

static void print_stats(const pst_schedule *schedule, const pst_simulation *s,
                        const costs *c, const pst_closed_form *form)
{
    char assumed[200];
    printf("schedule      %s: %d ranks, %d stages, %d microbatches\n",
           pst_schedule_name(schedule), s->ranks, s->stages, s->microbatches);
    printf("costs         %s\n", costs_text(c, assumed, sizeof assumed));
    printf("makespan      %g", s->makespan);
    if (form != NULL)
        printf("   closed form %g = %s", form->makespan, form->formula);
    printf("\nlongest rank  %g (from its first start to its last end)\n",
           s->longest_rank);
    printf("ideal         %g (work of the busiest rank)\n", s->ideal);
    printf("bubble        %.4f of the makespan (1 - ideal/makespan)\n",
           s->bubble.of_makespan);
    printf("              %.4f of the ideal (makespan/ideal - 1)\n",
           s->bubble.of_ideal);
    printf("              %.4f of the longest rank (1 - ideal/longest rank)\n",
           s->bubble.longest_rank);
    printf("queue         at most %d message%s under way between two ranks\n",
           s->max_queue_depth, s->max_queue_depth == 1 ? "" : "s");
    print_links(s);
    if (form != NULL)
        printf("peak          closed form: %d on the first rank, %d on the last\n",
               form->peak_first_rank, form->peak_last_rank);
    if (s->updates > 0)
        printf(
            "updates       %d of the weights; 'versions' counts those a rank keeps\n",
            s->updates);
    printf("\nrank        busy        idle  idle %%  peak activations%s\n",
           s->updates > 0 ? "  versions" : "");
    for (int rank = 0; rank < s->ranks; rank++) {
        double idle = s->makespan - s->busy[rank];
        printf("%4d  %10g  %10g  %5.1f  %16d", rank, s->busy[rank], idle,
               s->makespan > 0 ? 100 * idle / s->makespan : 0,
               s->peak_activations[rank]);
        if (s->updates > 0)
            printf("  %8d", s->weight_versions[rank]);
        putchar('\n');
    }
}

static pst_status stats(const pst_schedule *schedule, const shape_options *shape,
                        costs *c, int json, pst_error *err)
{
    pst_costs resolved;
    pst_simulation *simulation;
    pst_closed_form form;
    pst_status status = costs_resolve(c, schedule, &resolved, err);
    if (status == PST_OK)
        status = pst_simulate(NULL, schedule, &resolved, &simulation, err);
    if (status != PST_OK)
        return status;
    const pst_closed_form *known =
        find_closed_form(schedule, shape, &resolved, &form) ? &form : NULL;
    if (json) {
        char *text;
        status = pst_report_simulation(NULL, pst_schedule_name(schedule), simulation,
                                       known, &text, err);
        if (status == PST_OK) {
            puts(text);
            pst_release(NULL, text);
        }
    } else {
        print_stats(schedule, simulation, c, known);
    }
    pst_simulation_destroy(simulation);
    return status;
}

int pipesim_stats(int argc, char **argv)
{
    shape_options shape = {.order = 0};
    costs c = COSTS_INIT;
    int json = 0;
    /* clang-format off */
    option table[SHAPE_OPTION_COUNT + COSTS_OPTION_COUNT + 1] = {
        {.name = "json", .kind = OPTION_FLAG, .value = &json,
         .help = "one JSON object instead of a table"},
    };
    /* clang-format on */
    shape_add_options(&shape, table + 1);
    costs_options(&c, table + 1 + SHAPE_OPTION_COUNT);
    const command command = {
        .name = "pipesim stats",
        .operands = "SCHEDULE",
        .summary =
            "Time, idle time and memory of a schedule, a name or a CSV file ('-': "
            "standard\ninput), beside the closed form where one is known.",
        .fewest_operands = 1,
        .most_operands = 1,
        .options = table,
        .option_count = sizeof table / sizeof *table,
        .print_version = pipesim_version};
    const char *operand;
    int count;
    pst_schedule *schedule;
    int status = options_parse(&command, argc, argv, &operand, &count);
    if (status == OPTIONS_GO_ON)
        status = shape_make(&command, &shape, &c, operand, &schedule);
    if (status != OPTIONS_GO_ON)
        return status;
    pst_error err = PST_ERROR_INIT;
    status = stats(schedule, &shape, &c, json, &err) == PST_OK ? 0 : say_failure(&err);
    costs_free(&c);
    pst_schedule_destroy(schedule);
    return status;
}
