/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steady.c - one iteration with callbacks that do nothing.
 *
 * Usage: steady RANKS MICROBATCHES. Whatever its length, the system calls are the same:
 * tests/cli/steady.sh counts them. On two ranks, each waits in its first callback of a
 * direction until the other has made what it will need, so that messages are ready.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <penstock/pipeline.h>
#include <penstock/registry.h>

enum { STAGES = 4 };

static int ranks;
static int microbatches;
static atomic_int forwards;  /* of rank 0 */
static atomic_int backwards; /* of rank 1 */

static void wait_for_all(atomic_int *count)
{
    while (ranks == 2 && atomic_load(count) < microbatches)
        ; /* without a system call */
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)err;
    if (work->rank == 0)
        atomic_fetch_add(&forwards, 1);
    else
        wait_for_all(&forwards);
    return PST_OK;
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)err;
    if (work->rank == 1)
        atomic_fetch_add(&backwards, 1);
    else
        wait_for_all(&backwards);
    return PST_OK;
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    (void)self, (void)work, (void)err;
    return PST_OK;
}

static pst_status open_pipeline(const pst_schedule *schedule, pst_pipeline **pipeline,
                                pst_error *err)
{
    pst_stage stages[STAGES];
    int rank_of_stage[STAGES];
    const int count = pst_schedule_stages(schedule);
    for (int i = 0; i < count; i++) {
        rank_of_stage[i] = pst_schedule_rank_of(schedule, i);
        stages[i] = (pst_stage){.input_bytes = i > 0 ? 64 : 0,
                                .output_bytes = i < count - 1 ? 64 : 0,
                                .saved_for_input_bytes = 64,
                                .gradient_count = 16,
                                .forward = forward,
                                .backward_input = backward_input,
                                .backward_weight = backward_weight};
    }
    return pst_pipeline_create(NULL, stages, count, rank_of_stage, ranks, NULL,
                               pipeline, err);
}

int main(int argc, char **argv)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_pipeline *pipeline = NULL;
    int program;
    ranks = argc > 1 ? atoi(argv[1]) : 0;
    microbatches = argc > 2 ? atoi(argv[2]) : 0;
    const pst_shape shape = {.ranks = ranks,
                             .microbatches = microbatches,
                             .chunks = ranks == 1 ? STAGES : 1};
    if (ranks > 2 ||
        pst_schedule_create(NULL, ranks == 1 ? "interleaved" : "gpipe", &shape,
                            &schedule, &err) != PST_OK ||
        open_pipeline(schedule, &pipeline, &err) != PST_OK ||
        pst_pipeline_load(pipeline, schedule, &program, &err) != PST_OK) {
        fprintf(stderr, "steady: %s\n", err.text);
        return 1;
    }
    /* Between these two writes the caller and the workers only run the list. */
    fputs("begin\n", stderr);
    const pst_status status = pst_pipeline_run(pipeline, program, 0, 1, &err);
    fputs("end\n", stderr);
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
    return status == PST_OK ? 0 : 1;
}
