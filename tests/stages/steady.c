/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steady.c - one iteration on one rank with callbacks that do nothing.
 *
 * Usage: steady MICROBATCHES. Whatever its length, the system calls are the same:
 * tests/cli/steady.sh counts them.
 */
#include <stdio.h>
#include <stdlib.h>

#include <penstock/pipeline.h>
#include <penstock/registry.h>

static pst_status nothing(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)work, (void)err;
    return PST_OK;
}

int main(int argc, char **argv)
{
    enum { STAGES = 4 };
    const pst_shape shape = {
        .ranks = 1, .microbatches = argc > 1 ? atoi(argv[1]) : 0, .chunks = STAGES};
    const int rank_of_stage[STAGES] = {0};
    pst_stage stages[STAGES];
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_pipeline *pipeline = NULL;
    int program;
    for (int i = 0; i < STAGES; i++)
        stages[i] = (pst_stage){.input_bytes = i > 0 ? 64 : 0,
                                .output_bytes = i < STAGES - 1 ? 64 : 0,
                                .saved_for_input_bytes = 64,
                                .gradient_count = 16,
                                .forward = nothing,
                                .backward_input = nothing,
                                .backward_weight = nothing};
    if (pst_schedule_create(NULL, "interleaved", &shape, &schedule, &err) != PST_OK ||
        pst_pipeline_create(NULL, stages, STAGES, rank_of_stage, 1, NULL, &pipeline,
                            &err) != PST_OK ||
        pst_pipeline_load(pipeline, schedule, &program, &err) != PST_OK) {
        fprintf(stderr, "steady: %s\n", err.text);
        return 1;
    }
    /* Between these two writes the caller and the worker only run the list. */
    fputs("begin\n", stderr);
    const pst_status status = pst_pipeline_run(pipeline, program, 0, 1, &err);
    fputs("end\n", stderr);
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
    return status == PST_OK ? 0 : 1;
}
