/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_pipeline.c - is the pipeline real? Two pinned stages beside one.
 *
 * Trains the same model on one stage and on two, a step of each in turn, and
 * prints the medians, their ratio, and the measured makespan of two stages over
 * the one that the simulator predicts from the measured costs.
 *
 * Usage: bench_pipeline [STEPS [MICROBATCHES [SCHEDULE]]]
 */
#include <stdio.h>
#include <stdlib.h>

#include <penstock/registry.h>
#include <penstock/trainer.h>

#include "tools/history.h"

enum { BATCH = 16, CONTEXT = 128, WIDTH = 192, WARM_UP = 5 };

static pst_error error = PST_ERROR_INIT;

static void die(void)
{
    fprintf(stderr, "bench_pipeline: %s\n", error.text);
    exit(1);
}

static pst_schedule *make_schedule(const char *name, int stages, int microbatches)
{
    pst_shape shape = {.ranks = stages, .microbatches = microbatches};
    pst_schedule *schedule;
    if (pst_schedule_create(NULL, name, &shape, &schedule, &error) != PST_OK)
        die();
    return schedule;
}

static pst_trainer *make_trainer(const pst_schedule *schedule)
{
    pst_trainer_options options = {
        .model = {.layers = 4, .heads = 6, .width = WIDTH, .context = CONTEXT},
        .optimizer = {.lr = 1e-3, .min_lr = -1},
        .batch = BATCH,
        .schedule = schedule,
        .seed = 1,
        .pipeline = {.team = 1}};
    pst_trainer *trainer;
    if (pst_trainer_create(NULL, &options, &trainer, &error) != PST_OK)
        die();
    return trainer;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static double step(pst_trainer *trainer, const int32_t *inputs, const int32_t *labels)
{
    pst_step_report report;
    if (pst_trainer_step(trainer, inputs, labels, &report, &error) != PST_OK)
        die();
    return report.seconds;
}

static void report_prediction(const pst_schedule *schedule, const pst_history *history)
{
    double forward[2], input[2], weight[2], measured;
    pst_costs costs;
    pst_simulation *simulation = NULL;
    if (history_costs(history, forward, input, weight, &costs, &error) != PST_OK ||
        pst_simulate(NULL, schedule, &costs, &simulation, &error) != PST_OK)
        die();
    history_typical(history, &measured);
    printf("makespan of two stages  %.2f ms measured, %.2f ms simulated from measured "
           "costs, ratio %.3f\n",
           measured * 1e3, simulation->makespan * 1e3, measured / simulation->makespan);
    pst_simulation_destroy(simulation);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 41;
    int microbatches = argc > 2 ? atoi(argv[2]) : 8;
    const char *name = argc > 3 ? argv[3] : "1f1b";
    if (steps < 1 || microbatches < 1 || microbatches > BATCH) {
        fprintf(stderr, "usage: bench_pipeline [STEPS [MICROBATCHES [SCHEDULE]]]\n");
        return 2;
    }
    pst_schedule *one = make_schedule(name, 1, microbatches);
    pst_schedule *two = make_schedule(name, 2, microbatches);
    pst_trainer *serial = make_trainer(one), *pipelined = make_trainer(two);
    pst_history *history;
    if (history_create(two, &history, &error) != PST_OK)
        die();

    int32_t *tokens = calloc(BATCH * CONTEXT, sizeof *tokens);
    double *serial_s = calloc((size_t)steps, sizeof *serial_s);
    double *pipelined_s = calloc((size_t)steps, sizeof *pipelined_s);
    if (tokens == NULL || serial_s == NULL || pipelined_s == NULL)
        return 1;
    for (int i = 0; i < BATCH * CONTEXT; i++)
        tokens[i] = (i * 7 + i / 3) % 256;
    for (int i = -WARM_UP; i < steps; i++) {
        double a = step(serial, tokens, tokens);
        double b = step(pipelined, tokens, tokens);
        if (i < 0)
            continue;
        serial_s[i] = a;
        pipelined_s[i] = b;
        history_add(history, pst_trainer_pipeline(pipelined));
    }
    double a = median(serial_s, steps), b = median(pipelined_s, steps);
    printf("%s, %d microbatches, %d steps each in turn\n", name, microbatches, steps);
    printf("one stage on one core   %.2f ms a step (median)\n", a * 1e3);
    printf("two stages on two cores %.2f ms a step (median), ratio %.3f, ideal %.3f\n",
           b * 1e3, b / a, (microbatches + 1.0) / (2.0 * microbatches));
    report_prediction(two, history);

    history_destroy(history);
    pst_trainer_destroy(serial);
    pst_trainer_destroy(pipelined);
    pst_schedule_destroy(one);
    pst_schedule_destroy(two);
    free(tokens);
    free(serial_s);
    free(pipelined_s);
    return 0;
}
