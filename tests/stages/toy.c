/* SPDX-License-Identifier: BSD-3-Clause */
/* toy.c - the stages of toy.h, what they must compute, random lists. */
#include "tests/stages/toy.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/registry.h>
#include <penstock/schedule_csv.h>

#include "stages/thread.h"

/* ---- what is computed --------------------------------------------------- */

/* No compiler may fuse the product with a later sum: sums must not depend on it. */
static float times(float a, float b)
{
    volatile float product = a * b;
    return product;
}

float toy_weight(const toy *t, int stage, size_t k)
{
    if (t->shape.exact)
        return stage == 1 ? 2.0f : stage % 3 == 2 ? -1.0f : 1.0f;
    return 0.7f + 0.13f * (float)(stage % 5) + 0.011f * (float)k;
}

static float input_value(const toy *t, int microbatch, int64_t iteration, size_t k)
{
    const int whole = 1 + microbatch + (int)(k % 5) + (int)(iteration % 3);
    return t->shape.exact ? (float)whole : 0.3f + 0.37f * (float)(whole * whole);
}

static float target_value(const toy *t, int microbatch, size_t k)
{
    const int whole = 3 * microbatch - (int)k;
    return t->shape.exact ? (float)whole : 0.1f * (float)whole;
}

static size_t used(const toy *t, int microbatch)
{
    return t->shape.shrinks ? TOY_WIDTH - (size_t)microbatch % TOY_WIDTH : TOY_WIDTH;
}

static float output_of(float weight, float x, int stage)
{
    return times(weight, x) + (float)(stage % 7);
}

/* x in front of each stage, and the gradient behind it. */
static void walk(const toy *t, int microbatch, int64_t iteration, size_t k, float *x,
                 float *behind)
{
    const int stages = t->shape.stages;
    x[0] = input_value(t, microbatch, iteration, k);
    for (int s = 0; s < stages; s++)
        x[s + 1] = output_of(toy_weight(t, s, k), x[s], s);
    behind[stages - 1] = x[stages] - target_value(t, microbatch, k);
    for (int s = stages - 1; s > 0; s--)
        behind[s - 1] = times(behind[s], toy_weight(t, s, k));
}

static int slices_of(const toy *t)
{
    return t->shape.slices > 0 ? t->shape.slices : 1;
}

int toy_due(const toy *t, int index)
{
    const int slices = slices_of(t);
    return index / slices * slices + slices - 1 - index % slices;
}

void toy_gradient(const toy *t, int stage, int microbatches, int64_t iteration,
                  float *gradient)
{
    float x[TOY_STAGES + 1];
    float behind[TOY_STAGES];
    memset(gradient, 0, TOY_WIDTH * sizeof *gradient);
    for (int i = 0; i < microbatches; i++) {
        const int b = toy_due(t, i);
        for (size_t k = 0; k < used(t, b); k++) {
            walk(t, b, iteration, k, x, behind);
            gradient[k] += times(behind[stage], x[stage]);
        }
    }
}

/* The same in whole numbers, with no float in it. */
static bool is_whole_gradient(const toy *t, int stage, int microbatches,
                              int64_t iteration, const float *gradient)
{
    for (size_t k = 0; k < TOY_WIDTH; k++) {
        int64_t sum = 0;
        for (int b = 0; b < microbatches; b++) {
            if (k >= used(t, b))
                continue;
            int64_t y = 1 + b + (int64_t)(k % 5) + iteration % 3;
            int64_t x = 0;
            int64_t slope = 1;
            for (int s = 0; s < t->shape.stages; s++) {
                const int64_t weight = s == 1 ? 2 : s % 3 == 2 ? -1 : 1;
                x = s == stage ? y : x;
                slope *= s > stage ? weight : 1;
                y = weight * y + s % 7;
            }
            sum += (y - (3 * b - (int64_t)k)) * slope * x;
        }
        if ((int64_t)gradient[k] != sum || (float)sum != gradient[k])
            return false;
    }
    return true;
}

/* ---- the callbacks ------------------------------------------------------- */

static pst_status fault(const pst_work *work, const char *what, pst_error *err)
{
    return pst_error_set(err, PST_ENUMERIC, "toy: stage %d, microbatch %d: %s",
                         work->stage, work->microbatch, what);
}

/* As the list writes it. */
static int unit_of(const pst_work *work)
{
    return work->microbatch * work->slices + work->slice;
}

/* What the slices of a microbatch share: whose it is, and how many went each way. */
typedef struct sequence {
    int32_t stage;
    int32_t microbatch;
    int64_t iteration;
    int32_t forward;
    int32_t backward;
} sequence;

/* False: the shared buffer is not there, another's, or has missed a slice. */
static bool share(const pst_work *work, int op)
{
    sequence *s = work->sequence;
    if (work->slices == 1 || !s)
        return work->slices == 1 && !s;
    if (op == PST_OP_FORWARD && work->slice == 0)
        *s = (sequence){.stage = work->stage,
                        .microbatch = work->microbatch,
                        .iteration = work->iteration};
    if (s->stage != work->stage || s->microbatch != work->microbatch ||
        s->iteration != work->iteration)
        return false;
    if (op == PST_OP_FORWARD)
        return s->forward++ == work->slice && s->backward == 0;
    return s->forward == work->slices &&
           s->backward++ == work->slices - 1 - work->slice;
}

/* A saved buffer: whose it is, and n values. */
typedef struct saved {
    int32_t stage;
    int32_t microbatch;
    int64_t iteration;
    float value[TOY_WIDTH];
} saved;

static void save(void *buffer, const pst_work *work, const float *value, size_t n)
{
    saved *s = buffer;
    s->stage = work->stage;
    s->microbatch = unit_of(work);
    s->iteration = work->iteration;
    memcpy(s->value, value, n * sizeof *value);
}

static bool is_own(const void *buffer, const pst_work *work)
{
    const saved *s = buffer;
    return s && s->stage == work->stage && s->microbatch == unit_of(work) &&
           s->iteration == work->iteration;
}

static bool is_aligned(const void *memory)
{
    return (uintptr_t)memory % 64 == 0;
}

/* What is true in each callback of a microbatch. */
static const char *what_is_wrong(const toy *t, const pst_work *work)
{
    const bool first = work->stage == 0;
    const bool last = work->stage == t->shape.stages - 1;
    if (work->rank != t->rank_of_stage[work->stage])
        return "it runs on the wrong rank";
    if (!is_aligned(work->input) || !is_aligned(work->output) ||
        !is_aligned(work->output_grad) || !is_aligned(work->input_grad) ||
        !is_aligned(work->saved_for_input) || !is_aligned(work->saved_for_weight) ||
        !is_aligned(work->kept) || !is_aligned(work->scratch) ||
        !is_aligned(work->sequence) || !is_aligned(work->weights) ||
        !is_aligned(work->gradients))
        return "a buffer is not aligned";
    if (first && (work->input || work->input_bytes || work->input_grad))
        return "the first stage has an input";
    if (last && (work->output || work->output_bytes || work->output_grad ||
                 work->output_grad_bytes))
        return "the last stage has an output";
    if (!work->scratch || !work->weights)
        return "no scratch or no weights";
    if (!work->training &&
        (work->saved_for_input || work->saved_for_weight || work->kept))
        return "something is saved without training";
    const float *weights = work->weights;
    for (size_t k = 0; k < TOY_WIDTH; k++)
        if (weights[k] != toy_weight(t, work->stage, k))
            return "the weights are others";
    return NULL;
}

static void fill_scratch(const pst_work *work)
{
    for (int32_t i = 0; i < TOY_WIDTH; i++)
        ((int32_t *)work->scratch)[i] = work->stage * 1000 + work->microbatch * 10 + i;
}

static bool scratch_is_kept(const pst_work *work)
{
    for (int32_t i = 0; i < TOY_WIDTH; i++)
        if (((int32_t *)work->scratch)[i] !=
            work->stage * 1000 + work->microbatch * 10 + i)
            return false;
    return true;
}

static pst_status end(const toy *t, int op, pst_work *work, pst_error *err)
{
    if (op < TOY_REDUCE && !scratch_is_kept(work))
        return fault(work, "another wrote into scratch", err);
    return t->hook ? t->hook(t->user, op, work, err) : PST_OK;
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    toy *t = ((toy_self *)self)->owner;
    const size_t n = used(t, unit_of(work));
    const bool last = work->stage == t->shape.stages - 1;
    const char *wrong = what_is_wrong(t, work);
    float x[TOY_WIDTH];
    float y[TOY_WIDTH];
    if (wrong)
        return fault(work, wrong, err);
    if (work->stage > 0 && work->input_bytes != n * sizeof *x)
        return fault(work, "the input has another length", err);
    if (!last && work->output_bytes != TOY_WIDTH * sizeof *x)
        return fault(work, "the output has another length", err);
    if (!share(work, PST_OP_FORWARD))
        return fault(work, "what slices share is wrong in F", err);
    fill_scratch(work);
    for (size_t k = 0; k < n; k++)
        x[k] = work->input ? ((const float *)work->input)[k]
                           : input_value(t, unit_of(work), work->iteration, k);
    for (size_t k = 0; k < n; k++)
        y[k] = output_of(((const float *)work->weights)[k], x[k], work->stage);
    memcpy(last ? t->result[unit_of(work)] : work->output, y, n * sizeof *y);
    if (!last)
        work->output_bytes = n * sizeof *y;
    if (work->training) {
        save(work->saved_for_input, work, y, n);
        save(work->saved_for_weight, work, x, n);
    }
    return end(t, PST_OP_FORWARD, work, err);
}

/* The gradient behind the stage. */
static void read_gradient(const toy *t, const pst_work *work, size_t n, float *dy)
{
    const saved *s = work->saved_for_input;
    if (work->output_grad)
        memcpy(dy, work->output_grad, n * sizeof *dy);
    else
        for (size_t k = 0; k < n; k++)
            dy[k] = s->value[k] - target_value(t, unit_of(work), k);
}

static bool input_is_kept(const pst_work *work, size_t n)
{
    const saved *x = work->saved_for_weight;
    return work->input && memcmp(work->input, x->value, n * sizeof(float)) == 0;
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    toy *t = ((toy_self *)self)->owner;
    const size_t n = used(t, unit_of(work));
    const bool last = work->stage == t->shape.stages - 1;
    const char *wrong = what_is_wrong(t, work);
    float dy[TOY_WIDTH];
    if (wrong)
        return fault(work, wrong, err);
    if (!is_own(work->saved_for_input, work) || !is_own(work->saved_for_weight, work))
        return fault(work, "what was saved is lost before I", err);
    if (!share(work, PST_OP_BACKWARD_INPUT))
        return fault(work, "what slices share is wrong in I", err);
    if (!last && (!work->output_grad || work->output_grad_bytes != n * sizeof *dy))
        return fault(work, "the gradient has another length", err);
    if (work->stage > 0 && t->stage[work->stage].input_held != PST_HELD_TO_FORWARD &&
        !input_is_kept(work, n))
        return fault(work, "the input is lost before I", err);
    fill_scratch(work);
    read_gradient(t, work, n, dy);
    save(work->kept, work, dy, n);
    if (work->stage > 0) {
        for (size_t k = 0; k < n; k++)
            ((float *)work->input_grad)[k] =
                times(dy[k], ((const float *)work->weights)[k]);
        work->input_grad_bytes = n * sizeof *dy;
    }
    return end(t, PST_OP_BACKWARD_INPUT, work, err);
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    toy *t = ((toy_self *)self)->owner;
    const pst_stage *s = &t->stage[work->stage];
    const size_t n = used(t, unit_of(work));
    const char *wrong = what_is_wrong(t, work);
    if (wrong)
        return fault(work, wrong, err);
    if (!is_own(work->saved_for_weight, work) || !is_own(work->kept, work))
        return fault(work, "what was saved is lost before W", err);
    const saved *x = work->saved_for_weight;
    const saved *dy = work->kept;
    if (work->stage > 0 && s->input_held == PST_HELD_TO_BACKWARD_WEIGHT &&
        !input_is_kept(work, n))
        return fault(work, "the input is lost before W", err);
    if (s->output_grad_held == PST_HELD_TO_BACKWARD_WEIGHT && s->output_bytes > 0 &&
        (!work->output_grad ||
         memcmp(work->output_grad, dy->value, n * sizeof(float)) != 0))
        return fault(work, "the gradient is lost before W", err);
    fill_scratch(work);
    for (size_t k = 0; k < n; k++)
        work->gradients[k] += times(dy->value[k], x->value[k]);
    return end(t, PST_OP_BACKWARD_WEIGHT, work, err);
}

static pst_status reduce(void *self, pst_work *work, pst_error *err)
{
    toy_self *own = self;
    own->reduced++;
    if (!work->gradients || !work->optimizer)
        return fault(work, "reduce has no gradients or no optimizer", err);
    return end(own->owner, TOY_REDUCE, work, err);
}

static pst_status step(void *self, pst_work *work, pst_error *err)
{
    toy_self *own = self;
    own->stepped++;
    if (!work->gradients || !work->optimizer)
        return fault(work, "step has no gradients or no optimizer", err);
    memcpy(work->optimizer, work->gradients, TOY_WIDTH * sizeof(float));
    return end(own->owner, TOY_STEP, work, err);
}

/* ---- pipelines ----------------------------------------------------------- */

static pst_stage make_stage(toy *t, int stage)
{
    const size_t bytes = TOY_WIDTH * sizeof(float);
    t->self[stage] = (toy_self){.owner = t, .stage = stage};
    return (pst_stage){.self = &t->self[stage],
                       .input_bytes = stage > 0 ? bytes : 0,
                       .output_bytes = stage + 1 < t->shape.stages ? bytes : 0,
                       .saved_for_input_bytes = sizeof(saved),
                       .saved_for_weight_bytes = sizeof(saved),
                       .kept_bytes = sizeof(saved),
                       .scratch_bytes = bytes,
                       .sequence_bytes = sizeof(sequence),
                       .weight_bytes = bytes,
                       .gradient_count = TOY_WIDTH,
                       .optimizer_bytes = bytes,
                       .input_held = (pst_held)(stage % 3),
                       .output_grad_held = stage % 2 ? PST_HELD_TO_BACKWARD_WEIGHT
                                                     : PST_HELD_TO_BACKWARD_INPUT,
                       .forward = forward,
                       .backward_input = backward_input,
                       .backward_weight = backward_weight,
                       .reduce = reduce,
                       .step = step};
}

void toy_init(toy *t, const toy_shape *shape)
{
    memset(t, 0, sizeof *t);
    t->shape = *shape;
    for (int s = 0; s < shape->stages; s++) {
        t->rank_of_stage[s] = shape->rank_of_stage ? shape->rank_of_stage[s] : s;
        t->stage[s] = make_stage(t, s);
    }
}

pst_pipeline *toy_create(toy *t, const pst_env *env,
                         const pst_pipeline_options *options)
{
    pst_error err = PST_ERROR_INIT;
    pst_pipeline *pipeline = NULL;
    const pst_status status =
        pst_pipeline_create(env, t->stage, t->shape.stages, t->rank_of_stage,
                            t->shape.ranks, options, &pipeline, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    for (int s = 0; s < t->shape.stages; s++) {
        float *weights = pst_pipeline_weights(pipeline, s);
        for (size_t k = 0; weights && k < TOY_WIDTH; k++) {
            ck_assert(weights[k] == 0);
            weights[k] = toy_weight(t, s, k);
        }
    }
    return pipeline;
}

int toy_load(pst_pipeline *pipeline, const pst_schedule *schedule)
{
    pst_error err = PST_ERROR_INIT;
    int program = -1;
    const pst_status status = pst_pipeline_load(pipeline, schedule, &program, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    return program;
}

bool toy_is_right(const toy *t, pst_pipeline *pipeline, int microbatches,
                  int64_t iteration)
{
    float x[TOY_STAGES + 1];
    float behind[TOY_STAGES];
    float gradient[TOY_WIDTH];
    const bool has_last = pst_pipeline_weights(pipeline, t->shape.stages - 1);
    for (int b = 0; has_last && b < microbatches; b++)
        for (size_t k = 0; k < used(t, b); k++) {
            walk(t, b, iteration, k, x, behind);
            if (memcmp(&t->result[b][k], &x[t->shape.stages], sizeof *x) != 0)
                return false;
        }
    for (int s = 0; s < t->shape.stages; s++) {
        const float *found = pst_pipeline_gradients(pipeline, s);
        if (!found)
            continue;
        toy_gradient(t, s, microbatches, iteration, gradient);
        if (memcmp(found, gradient, sizeof gradient) != 0 ||
            (t->shape.exact &&
             !is_whole_gradient(t, s, microbatches, iteration, found)))
            return false;
    }
    return true;
}

void toy_run(toy *t, pst_pipeline *pipeline, int program, int microbatches,
             int64_t iteration)
{
    pst_error err = PST_ERROR_INIT;
    int stepped[TOY_STAGES];
    for (int s = 0; s < t->shape.stages; s++)
        stepped[s] = t->self[s].stepped;
    const pst_status status = pst_pipeline_run(pipeline, program, 0, iteration, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    ck_assert(toy_is_right(t, pipeline, microbatches, iteration));
    for (int s = 0; s < t->shape.stages; s++) {
        if (!pst_pipeline_weights(pipeline, s))
            continue;
        ck_assert_int_eq(t->self[s].stepped, stepped[s] + 1);
        ck_assert_int_eq(memcmp(pst_pipeline_optimizer(pipeline, s),
                                pst_pipeline_gradients(pipeline, s),
                                TOY_WIDTH * sizeof(float)),
                         0);
    }
}

/* ---- lists --------------------------------------------------------------- */

pst_schedule *toy_named(const char *name, int ranks, int microbatches)
{
    const pst_shape shape = {.ranks = ranks, .microbatches = microbatches};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const pst_status status = pst_schedule_create(NULL, name, &shape, &schedule, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    return schedule;
}

pst_schedule *toy_sliced(const toy *t, int ranks, int whole_microbatches)
{
    const pst_shape shape = {
        .ranks = ranks, .microbatches = whole_microbatches, .slices = slices_of(t)};
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    pst_schedule_create(NULL, "seq1f1b", &shape, &schedule, &err);
    ck_assert_msg(schedule != NULL, "%s", err.text);
    return schedule;
}

pst_schedule *toy_parse(const char *csv)
{
    pst_error err = PST_ERROR_INIT;
    pst_schedule *schedule = NULL;
    const pst_status status = pst_schedule_parse_csv(NULL, "by hand", csv, strlen(csv),
                                                     NULL, &schedule, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    return schedule;
}

typedef struct maker {
    const toy *t;
    int microbatches;
    uint64_t seed;
    bool late_weights;
    bool forward_done[TOY_STAGES][TOY_MICROBATCHES];
    bool input_done[TOY_STAGES][TOY_MICROBATCHES];
    bool weight_done[TOY_STAGES][TOY_MICROBATCHES];
    bool whole[TOY_STAGES][TOY_MICROBATCHES]; /* B instead of I and W          */
    pst_action ready[3 * TOY_STAGES * TOY_MICROBATCHES];
    size_t ready_count;
} maker;

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 11;
}

static void add_ready(maker *m, int op, int stage, int microbatch)
{
    m->ready[m->ready_count++] = (pst_action){.op = (uint8_t)op,
                                              .stage = (uint16_t)stage,
                                              .microbatch = (uint32_t)microbatch};
}

static void look_at(maker *m, int s, int b)
{
    const bool last = s + 1 == m->t->shape.stages;
    const int slices = slices_of(m->t), slice = b % slices;
    if (!m->forward_done[s][b]) {
        if ((s == 0 || m->forward_done[s - 1][b]) &&
            (slice == 0 || m->forward_done[s][b - 1]))
            add_ready(m, PST_OP_FORWARD, s, b);
    } else if (!m->input_done[s][b]) {
        if ((last || m->input_done[s + 1][b]) &&
            (slice + 1 == slices || m->input_done[s][b + 1]))
            add_ready(m, m->whole[s][b] ? PST_OP_BACKWARD : PST_OP_BACKWARD_INPUT, s,
                      b);
    } else if (!m->weight_done[s][b] && !m->late_weights) {
        add_ready(m, PST_OP_BACKWARD_WEIGHT, s, b);
    }
}

static void find_ready(maker *m)
{
    m->ready_count = 0;
    for (int s = 0; s < m->t->shape.stages; s++)
        for (int b = 0; b < m->microbatches; b++)
            look_at(m, s, b);
    if (m->ready_count > 0 || !m->late_weights)
        return;
    for (int s = 0; s < m->t->shape.stages; s++)
        for (int b = m->microbatches; b-- > 0;)
            if (!m->weight_done[s][b]) {
                add_ready(m, PST_OP_BACKWARD_WEIGHT, s, b);
                break;
            }
}

static void mark_done(maker *m, pst_action action)
{
    const int s = action.stage;
    const uint32_t b = action.microbatch;
    m->forward_done[s][b] |= action.op == PST_OP_FORWARD;
    m->input_done[s][b] |=
        action.op == PST_OP_BACKWARD || action.op == PST_OP_BACKWARD_INPUT;
    m->weight_done[s][b] |=
        action.op == PST_OP_BACKWARD || action.op == PST_OP_BACKWARD_WEIGHT;
}

pst_schedule *toy_random(const toy *t, int microbatches, uint64_t seed,
                         bool late_weights)
{
    maker *m = calloc(1, sizeof *m);
    pst_schedule_builder *builder = NULL;
    pst_schedule *schedule = NULL;
    m->t = t;
    m->microbatches = microbatches;
    m->seed = seed * 0x9e3779b97f4a7c15u + 1;
    m->late_weights = late_weights;
    for (int s = 0; s < t->shape.stages; s++)
        for (int b = 0; b < microbatches; b++)
            m->whole[s][b] = !late_weights && next_random(&m->seed) % 4 == 0;
    ck_assert_int_eq(pst_schedule_builder_create(NULL, t->shape.ranks, t->shape.stages,
                                                 microbatches, &builder, NULL),
                     PST_OK);
    ck_assert_int_eq(pst_schedule_builder_set_slices(builder, slices_of(t), NULL),
                     PST_OK);
    for (find_ready(m); m->ready_count > 0; find_ready(m)) {
        const pst_action action = m->ready[next_random(&m->seed) % m->ready_count];
        ck_assert_int_eq(pst_schedule_builder_append(
                             builder, t->rank_of_stage[action.stage], action, NULL),
                         PST_OK);
        mark_done(m, action);
    }
    ck_assert_int_eq(
        pst_schedule_builder_finish(builder, "random", NULL, &schedule, NULL), PST_OK);
    free(m);
    return schedule;
}

/* ---- memory and messages ------------------------------------------------- */

/* In front of each block; all live ones form a list, so that a leak checker sees what
 * a pipeline that cannot be destroyed keeps. */
typedef struct toy_block {
    struct toy_block *next;
    struct toy_block **link;
    void *whole;
} block;

static void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    toy_env *memory = user;
    memory->foreign += pst__thread_id() != memory->thread_id;
    if (++memory->total == memory->fail_at)
        return NULL;
    const size_t front = (sizeof(block) + alignment - 1) / alignment * alignment;
    char *whole = aligned_alloc(alignment, (front + bytes + alignment - 1) / alignment *
                                               alignment);
    if (!whole)
        return NULL;
    memset(whole, 0xa5, front + bytes);
    block *b = (block *)(whole + front) - 1;
    *b = (block){.next = memory->blocks, .link = &memory->blocks, .whole = whole};
    if (b->next)
        b->next->link = &b->next;
    memory->blocks = b;
    memory->live++;
    return whole + front;
}

static void count_release(void *user, void *data)
{
    toy_env *memory = user;
    block *b = (block *)data - 1;
    memory->foreign += pst__thread_id() != memory->thread_id;
    memory->live--;
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    free(b->whole);
}

static void keep_line(void *user, pst_log_level level, const char *text)
{
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    toy_env *memory = user;
    if (level > PST_LOG_WARNING)
        return;
    pthread_mutex_lock(&one_at_a_time);
    snprintf(memory->last_line, sizeof memory->last_line, "%s", text);
    pthread_mutex_unlock(&one_at_a_time);
    atomic_fetch_add(&memory->lines, 1);
}

void toy_env_init(toy_env *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->env = (pst_env){.allocate = count_allocate,
                            .release = count_release,
                            .log = keep_line,
                            .user = memory};
    memory->thread_id = pst__thread_id();
}
