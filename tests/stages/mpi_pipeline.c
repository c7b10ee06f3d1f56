/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_pipeline.c - a pipeline over MPI whose stages only look at what comes and make
 * what the next one expects, for tests/cli/mpi_cases.sh, which starts it by a launcher:
 *
 *     mpi_pipeline KIND RANKS CHUNKS MICROBATCHES BYTES,BYTES... STEPS FIRST
 *
 * STEPS iterations with messages of each size; FIRST is the number of the first
 * iteration. Each byte of each message follows from its iteration, microbatch, stage
 * and direction.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/mpi.h>
#include <penstock/pipeline.h>
#include <penstock/registry.h>

enum { MOST_STAGES = 32 };

static pst_schedule *schedule;
static pst_mpi *mpi;

/* ---- what is in a message ---- */

/* SplitMix64: another number for each of these. */
static uint64_t key_of(const pst_work *work, int stage, int backward)
{
    uint64_t z = (uint64_t)work->iteration * UINT64_C(0x9e3779b97f4a7c15) +
                 ((uint64_t)work->microbatch << 20) + ((uint64_t)stage << 1) +
                 (uint64_t)backward;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void fill(void *data, size_t bytes, uint64_t key)
{
    for (size_t i = 0; i < bytes; i += sizeof key, key++)
        memcpy((char *)data + i, &key, bytes - i < sizeof key ? bytes - i : sizeof key);
}

static int filled(const void *data, size_t bytes, uint64_t key)
{
    for (size_t i = 0; i < bytes; i += sizeof key, key++)
        if (memcmp((const char *)data + i, &key,
                   bytes - i < sizeof key ? bytes - i : sizeof key) != 0)
            return 0;
    return 1;
}

/* ---- stages ---- */

static pst_status refuse(const pst_work *work, const char *what, pst_error *err)
{
    return pst_error_set(err, PST_ECALLBACK,
                         "iteration %" PRId64 ": another %s has come than was due",
                         work->iteration, what);
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    const int before = pst_schedule_previous_stage(schedule, work->stage);
    if (work->input && !filled(work->input, work->input_bytes, key_of(work, before, 0)))
        return refuse(work, "activation", err);
    if (work->output)
        fill(work->output, work->output_bytes, key_of(work, work->stage, 0));
    return PST_OK;
}

static pst_status backward(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    const int after = pst_schedule_next_stage(schedule, work->stage);
    if (work->output_grad &&
        !filled(work->output_grad, work->output_grad_bytes, key_of(work, after, 1)))
        return refuse(work, "gradient", err);
    if (work->input_grad)
        fill(work->input_grad, work->input_grad_bytes, key_of(work, work->stage, 1));
    return PST_OK;
}

/* ---- the run ---- */

static pst_status make(size_t bytes, pst_transport *t, pst_pipeline **out, int *program,
                       pst_error *err)
{
    pst_stage stages[MOST_STAGES] = {{.self = NULL}};
    int rank_of_stage[MOST_STAGES], process_of_rank[MOST_STAGES];
    const int count = pst_schedule_stages(schedule);
    const int ranks = pst_schedule_ranks(schedule);
    if (count > MOST_STAGES)
        return pst_error_set(err, PST_EINVAL, "%d stages are too many", count);
    for (int s = 0; s < count; s++) {
        const int first = pst_schedule_previous_stage(schedule, s) < 0;
        const int last = pst_schedule_next_stage(schedule, s) < 0;
        stages[s] = (pst_stage){.input_bytes = first ? 0 : bytes,
                                .output_bytes = last ? 0 : bytes,
                                .forward = forward,
                                .backward_input = backward};
        rank_of_stage[s] = pst_schedule_rank_of(schedule, s);
    }
    for (int rank = 0; rank < ranks; rank++)
        process_of_rank[rank] = rank * t->processes / ranks;
    const pst_pipeline_options options = {.bind = PST_BIND_NONE,
                                          .replicas = pst_schedule_replicas(schedule),
                                          .transport = t,
                                          .process_of_rank = process_of_rank};
    const pst_status status = pst_pipeline_create(NULL, stages, count, rank_of_stage,
                                                  ranks, &options, out, err);
    return status ? status : pst_pipeline_load(*out, schedule, program, err);
}

static pst_status run_size(pst_transport *t, size_t bytes, int64_t steps, int64_t first,
                           pst_error *err)
{
    pst_pipeline *pipeline = NULL;
    int program = -1;
    pst_status status = make(bytes, t, &pipeline, &program, err);
    for (int64_t i = 0; i < steps && !status; i++)
        status = pst_pipeline_run(pipeline, program, 0, first + i, err);
    pst_pipeline_destroy(pipeline);
    return status;
}

static pst_status run(char **argv, pst_error *err)
{
    const pst_shape shape = {
        .ranks = atoi(argv[2]), .chunks = atoi(argv[3]), .microbatches = atoi(argv[4])};
    pst_status status;
    if ((status = pst_mpi_open(NULL, &mpi, err)) ||
        (status = pst_schedule_create(NULL, argv[1], &shape, &schedule, err)))
        return status;
    pst_transport *t = pst_mpi_transport(mpi);
    for (char *at = argv[5]; *at && !status; at += strspn(at, ","))
        status =
            run_size(t, strtoull(at, &at, 10), atoll(argv[6]), atoll(argv[7]), err);
    if (!status && t->process == 0)
        printf("%s of %s bytes, %s steps, %u tags: as it should be\n", argv[1], argv[5],
               argv[6], t->tags);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return 2;
    pst_error err = PST_ERROR_INIT;
    const pst_status status = run(argv, &err);
    if (status && status != PST_EPEER)
        fprintf(stderr, "mpi_pipeline: %s\n", err.text);
    pst_schedule_destroy(schedule);
    if (status && mpi)
        pst_mpi_abort(mpi, 1);
    if (mpi)
        pst_mpi_close(mpi);
    return status ? 1 : 0;
}
