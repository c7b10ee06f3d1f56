/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * three_stages.c - a pipeline of one's own, in one file.
 *
 * Three stages, each multiplies by one weight: y = w2 * (w1 * (w0 * x)). They learn
 * that y should be 6 x. Each stage runs on a worker thread of its own; eight
 * microbatches flow through them forward and back in an iteration, in the order of
 * the schedule "1f1b". Replace the arithmetic by yours and keep the rest.
 *
 * Build:  cc three_stages.c $(pkg-config --cflags --libs penstock)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/pipeline.h>
#include <penstock/registry.h>
#include <penstock/simulate.h>

enum { STAGES = 3, MICROBATCHES = 8, ELEMENTS = 64, ITERATIONS = 40 };

static const float target = 6.0f;
static const float learning_rate = 0.1f;

/* What all stages may look at. Each cell of `loss` is written by one worker, and read
 * when the run is over. */
typedef struct shared {
    double loss[MICROBATCHES];
} shared;

/* The data: element e of microbatch i, made where it is needed. */
static float sample(int microbatch, int element)
{
    return (float)((microbatch * ELEMENTS + element) % 97) / 97.0f;
}

/*
 * Forward. The runtime owns every buffer and has placed it near this worker. Stage 0
 * has no input and makes its own; the last stage has no output but keeps what its
 * backward starts from: the gradient of the loss for its y.
 */
static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    shared *all = self;
    (void)err; /* a callback that fails fills it: return pst_error_set(err, ...) */
    const float w = *(const float *)work->weights;
    const float *x = work->input;
    float *y = work->output;
    float *dy = work->saved_for_weight;
    double loss = 0.0;

    for (int e = 0; e < ELEMENTS; e++) {
        float product = w * (x != NULL ? x[e] : sample(work->microbatch, e));
        if (y != NULL) {
            y[e] = product;
        } else {
            float error = product - target * sample(work->microbatch, e);
            loss += 0.5 * (double)error * (double)error;
            dy[e] = error / (float)(MICROBATCHES * ELEMENTS);
        }
    }
    if (y == NULL)
        all->loss[work->microbatch] = loss / (MICROBATCHES * ELEMENTS);
    return PST_OK;
}

/* The gradient of this stage's output: from the stage after, or kept by the last. */
static const float *output_gradient(const pst_work *work)
{
    return work->output_grad != NULL ? work->output_grad : work->saved_for_weight;
}

/* Backward for the input: what the stage before is waiting for. */
static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    (void)err;
    const float w = *(const float *)work->weights;
    const float *dy = output_gradient(work);
    float *dx = work->input_grad;

    for (int e = 0; dx != NULL && e < ELEMENTS; e++)
        dx[e] = w * dy[e];
    return PST_OK;
}

/* Backward for the weight: one addition to each gradient, for the same bits always. */
static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    (void)err;
    const float *x = work->input;
    const float *dy = output_gradient(work);
    float sum = 0.0f;

    for (int e = 0; e < ELEMENTS; e++)
        sum += dy[e] * (x != NULL ? x[e] : sample(work->microbatch, e));
    work->gradients[0] += sum;
    return PST_OK;
}

/* Once an iteration, when all gradients are there. */
static pst_status step(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    (void)err;
    *(float *)work->weights -= learning_rate * work->gradients[0];
    return PST_OK;
}

/* One stage: its callbacks, and the sizes from which the runtime plans all memory. */
static pst_stage describe(int number, shared *all)
{
    const size_t bytes = ELEMENTS * sizeof(float);
    pst_stage stage;
    memset(&stage, 0, sizeof stage);
    stage.self = all;
    stage.input_bytes = number == 0 ? 0 : bytes;
    stage.output_bytes = number == STAGES - 1 ? 0 : bytes;
    stage.saved_for_weight_bytes = number == STAGES - 1 ? bytes : 0;
    stage.weight_bytes = sizeof(float);
    stage.gradient_count = 1;
    /* backward_weight reads both, so they are kept until it has run. */
    stage.input_held = PST_HELD_TO_BACKWARD_WEIGHT;
    stage.output_grad_held = PST_HELD_TO_BACKWARD_WEIGHT;
    stage.forward = forward;
    stage.backward_input = backward_input;
    stage.backward_weight = backward_weight;
    stage.step = step;
    return stage;
}

/* What the schedule costs by theory, if forward takes 1 and backward 2. */
static pst_status predict(const pst_schedule *schedule, pst_error *err)
{
    pst_simulation *simulation = NULL;
    pst_status status = pst_simulate(NULL, schedule, NULL, &simulation, err);
    if (status != PST_OK)
        return status;
    printf("predicted: %.0f units of time, %.1f %% of them idle\n",
           simulation->makespan, 100.0 * simulation->bubble.of_makespan);
    pst_simulation_destroy(simulation);
    return PST_OK;
}

static double total_loss(const shared *all)
{
    double sum = 0.0;
    for (int i = 0; i < MICROBATCHES; i++)
        sum += all->loss[i];
    return sum;
}

static pst_status learn(pst_pipeline *pipeline, int program, const shared *all,
                        pst_error *err)
{
    for (int s = 0; s < STAGES; s++)
        *(float *)pst_pipeline_weights(pipeline, s) = 1.0f;

    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        pst_status status = pst_pipeline_run(pipeline, program, 0, iteration, err);
        if (status != PST_OK)
            return status;
        if (iteration % 8 == 0 || iteration == ITERATIONS - 1)
            printf("iteration %2d  loss %.6f\n", iteration, total_loss(all));
    }
    for (int rank = 0; rank < STAGES; rank++) {
        pst_worker_info worker;
        pst_pipeline_worker(pipeline, rank, &worker);
        printf("rank %d ran on %s %s\n", rank, worker.bound ? "CPU" : "any of CPUs",
               worker.cpus);
    }
    return PST_OK;
}

int main(void)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_pipeline *pipeline = NULL;
    shared all;
    memset(&all, 0, sizeof all);

    /* 1. A schedule: by name here; schedule_csv.h reads one from a file. */
    const pst_shape shape = {.ranks = STAGES, .microbatches = MICROBATCHES};
    pst_status status = pst_schedule_create(NULL, "1f1b", &shape, &schedule, &err);
    if (status == PST_OK)
        status = predict(schedule, &err);
    if (status != PST_OK)
        goto out;

    /* 2. The stages and where each stands. */
    pst_stage stages[STAGES];
    int rank_of_stage[STAGES];
    for (int s = 0; s < STAGES; s++) {
        stages[s] = describe(s, &all);
        rank_of_stage[s] = pst_schedule_rank_of(schedule, s);
    }

    /* 3. A pipeline: starts the workers. Loading a schedule plans all its memory. */
    int program = 0;
    status = pst_pipeline_create(NULL, stages, STAGES, rank_of_stage, STAGES, NULL,
                                 &pipeline, &err);
    if (status == PST_OK)
        status = pst_pipeline_load(pipeline, schedule, &program, &err);

    /* 4. Run it as often as you like. */
    if (status == PST_OK)
        status = learn(pipeline, program, &all, &err);
    if (status != PST_OK)
        goto out;

    float product = 1.0f;
    for (int s = 0; s < STAGES; s++)
        product *= *(const float *)pst_pipeline_weights(pipeline, s);
    printf("learned y = %.3f x\n", (double)product);
    if (fabsf(product - target) > 0.01f)
        status = pst_error_set(&err, PST_ENUMERIC, "learned %g where %g was meant",
                               (double)product, (double)target);
out:
    if (status != PST_OK)
        fprintf(stderr, "three_stages: %s\n", err.text);
    pst_pipeline_destroy(pipeline);
    pst_schedule_destroy(schedule);
    return status == PST_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
