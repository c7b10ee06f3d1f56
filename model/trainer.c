/* SPDX-License-Identifier: BSD-3-Clause */
/* trainer.c - steps and evaluations on a pipeline; build.c makes the trainer. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "model/digest.h"
#include "model/trainer_peers.h"
#include "model/trainer_state.h"

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

pst_status pst__trainer_check_ids(const pst_trainer *trainer, size_t sequences,
                                  size_t length, const int32_t *inputs,
                                  const int32_t *labels, pst_error *err)
{
    const int32_t vocabulary = trainer->model.vocabulary;
    for (size_t i = 0; i < sequences * length; i++) {
        if (inputs[i] < 0 || inputs[i] >= vocabulary)
            return pst_error_set(err, PST_EINVAL,
                                 "sequence %zu, token %zu is id %" PRId32
                                 "; ids go from 0 to %" PRId32,
                                 i / length, i % length, inputs[i], vocabulary - 1);
        if (labels && labels[i] >= vocabulary)
            return pst_error_set(err, PST_EINVAL,
                                 "sequence %zu, label %zu is id %" PRId32
                                 "; ids go to %" PRId32
                                 ", and negative ones are ignored",
                                 i / length, i % length, labels[i], vocabulary - 1);
    }
    return PST_OK;
}

static int64_t count_valid(const int32_t *labels, size_t count)
{
    int64_t valid = 0;
    for (size_t i = 0; i < count; i++)
        valid += labels[i] >= 0;
    return valid;
}

static double total_loss(const pst_trainer *trainer, int units)
{
    double sum = 0;
    for (int i = 0; i < units; i++)
        sum += trainer->loss[i];
    return sum;
}

/* 1 / valid labels of all microbatches of the same update. */
static void scale_losses(pst_trainer *t, const int32_t *labels)
{
    const size_t length = (size_t)t->model.context;
    for (int i = 0; i < t->microbatches;) {
        int end = i;
        while (end < t->microbatches && t->update_of[end] == t->update_of[i])
            end++;
        const size_t first = t->train_first[i], last = t->train_first[end];
        const int64_t tokens =
            count_valid(labels + first * length, (last - first) * length);
        for (; i < end; i++)
            t->loss_scale[i] = tokens > 0 ? (float)(1.0 / (double)tokens) : 0;
    }
}

static double whole_norm(const pst_trainer *t)
{
    double sum = 0;
    for (size_t i = 0; i < t->tensor_count; i++)
        sum += t->squares[i];
    return sqrt(sum);
}

/* The tokens of each part of a microbatch in one piece (slice.h). */
static const int32_t *cut(const pst_trainer *t, int32_t *to, const int32_t *from)
{
    const size_t length = (size_t)t->model.context, parts = (size_t)t->parts;
    int32_t *next = to;
    for (int i = 0; i < t->microbatches; i++)
        for (size_t part = 0; part < parts; part++) {
            const size_t start = pst__part_start(length, parts, part);
            const size_t count = pst__part_start(length, parts, part + 1) - start;
            for (size_t k = t->train_first[i]; k < t->train_first[i + 1]; k++) {
                memcpy(next, from + k * length + start, count * sizeof *next);
                next += count;
            }
        }
    return to;
}

static pst_status train(pst_trainer *t, const int32_t *inputs, const int32_t *labels,
                        pst_step_report *report, pst_error *err)
{
    const size_t length = (size_t)t->model.context;
    const size_t sequences = (size_t)t->batch_size;
    const double started = seconds_now();
    pst_status status =
        pst__trainer_check_ids(t, sequences, length, inputs, labels, err);
    if (status != PST_OK)
        return status;
    const int64_t tokens = count_valid(labels, sequences * length);
    if (tokens == 0)
        return pst_error_set(err, PST_EINVAL,
                             "the batch has no label to learn from; all are negative");
    if (t->only_gradient && t->updates > 0)
        return pst_error_set(
            err, PST_EINVAL,
            "the schedule changes the weights within its list, so there "
            "is no gradient by itself; a synchronous one has it");
    scale_losses(t, labels);
    t->batch =
        (pst__batch){.length = length,
                     .first = t->train_first,
                     .per_replica = t->microbatches / t->replicas,
                     .inputs = t->parts > 1 ? cut(t, t->cut_inputs, inputs) : inputs,
                     .labels = t->parts > 1 ? cut(t, t->cut_labels, labels) : labels,
                     .loss_scale = t->loss_scale,
                     .loss = t->loss,
                     .dropout_key = {(uint32_t)t->seed, (uint32_t)(t->seed >> 32)},
                     .dropout_step = (uint32_t)t->steps};
    const int updates = t->updates > 0 ? t->updates : 1;
    for (int i = 0; i < updates; i++)
        pst__adamw_numbers_init(&t->numbers[i], &t->optimizer, t->steps,
                                t->steps * updates + i);
    status = pst_pipeline_run(t->pipeline, t->train_program, 0, t->steps, err);
    /* Where one process clips by the norm of all, combine() has asked them. */
    if (status == PST_OK && t->updates > 0)
        status = pst__trainer_share_numbers(t, t->microbatches * t->parts, err);
    if (status != PST_OK)
        return status;
    if (!t->only_gradient)
        t->steps++;
    if (t->updates > 0)
        t->norm = whole_norm(t);
    *report = (pst_step_report){.step = t->steps,
                                .loss = total_loss(t, t->microbatches * t->parts) /
                                        (double)tokens,
                                .gradient_norm = t->norm,
                                .lr = t->numbers[0].rate,
                                .tokens = tokens,
                                .makespan = t->span,
                                .bubble = t->span > 0 ? 1 - t->busiest / t->span : 0};
    report->seconds = seconds_now() - started;
    return PST_OK;
}

pst_status pst_trainer_step(pst_trainer *trainer, const int32_t *inputs,
                            const int32_t *labels, pst_step_report *report,
                            pst_error *err)
{
    trainer->only_gradient = 0;
    return train(trainer, inputs, labels, report, err);
}

pst_status pst_trainer_gradient(pst_trainer *trainer, const int32_t *inputs,
                                const int32_t *labels, pst_step_report *report,
                                pst_error *err)
{
    trainer->only_gradient = 1;
    return train(trainer, inputs, labels, report, err);
}

pst_status pst__trainer_forward(pst_trainer *trainer, size_t sequences, pst_error *err)
{
    const size_t each = (size_t)trainer->eval_microbatch;
    const int per_replica = trainer->eval_microbatches / trainer->replicas;
    const int needed = (int)((sequences + each - 1) / each);
    for (int i = 0; i <= trainer->eval_microbatches; i++) {
        const size_t first = (size_t)i * each;
        trainer->eval_first[i] = first < sequences ? first : sequences;
    }
    trainer->batch.first = trainer->eval_first;
    trainer->batch.per_replica = per_replica;
    trainer->batch.loss = trainer->loss;
    pst_status status = pst_pipeline_run(trainer->pipeline, trainer->eval_program,
                                         needed < per_replica ? needed : per_replica,
                                         trainer->steps, err);
    if (status == PST_OK && trainer->batch.logits)
        return pst__trainer_share_logits(trainer, err);
    if (status == PST_OK)
        status = pst__trainer_share_numbers(trainer, trainer->eval_microbatches, err);
    return status;
}

pst_status pst_trainer_evaluate(pst_trainer *trainer, size_t sequences,
                                const int32_t *inputs, const int32_t *labels,
                                double *loss_sum, int64_t *tokens, pst_error *err)
{
    const size_t length = (size_t)trainer->model.context;
    const size_t each = (size_t)trainer->eval_microbatch;
    const size_t most = each * (size_t)trainer->eval_microbatches;
    pst_status status =
        pst__trainer_check_ids(trainer, sequences, length, inputs, labels, err);
    if (status != PST_OK)
        return status;
    double sum = 0;
    for (size_t done = 0; done < sequences; done += most) {
        const size_t count = sequences - done < most ? sequences - done : most;
        trainer->batch = (pst__batch){.length = length,
                                      .inputs = inputs + done * length,
                                      .labels = labels + done * length};
        status = pst__trainer_forward(trainer, count, err);
        if (status != PST_OK)
            return status;
        sum += total_loss(trainer, (int)((count + each - 1) / each));
    }
    if (!isfinite(sum))
        return pst_error_set(
            err, PST_ENUMERIC,
            "the loss over the given windows is %g; the weights are "
            "beyond use, and an earlier checkpoint or a lower rate would "
            "work",
            sum);
    *loss_sum = sum;
    *tokens = count_valid(labels, sequences * length);
    return PST_OK;
}

pst_status pst_trainer_logits(pst_trainer *trainer, int sequences,
                              const int32_t *inputs, float *logits, pst_error *err)
{
    const size_t length = (size_t)trainer->model.context;
    const size_t most =
        (size_t)trainer->eval_microbatch * (size_t)trainer->eval_microbatches;
    const size_t count = sequences > 0 ? (size_t)sequences : 0;
    pst_status status =
        pst__trainer_check_ids(trainer, count, length, inputs, NULL, err);
    for (size_t done = 0; status == PST_OK && done < count; done += most) {
        trainer->batch = (pst__batch){
            .length = length,
            .inputs = inputs + done * length,
            .logits = logits + done * length * (size_t)trainer->model.vocabulary};
        status = pst__trainer_forward(trainer,
                                      count - done < most ? count - done : most, err);
    }
    return status;
}

const pst_tensor *pst_trainer_weights(const pst_trainer *trainer, size_t *count)
{
    *count = trainer->tensor_count;
    return trainer->weights;
}

const pst_tensor *pst_trainer_gradients(const pst_trainer *trainer, size_t *count)
{
    *count = trainer->tensor_count;
    return trainer->gradients;
}

pst_status pst_trainer_refresh(pst_trainer *trainer, pst_error *err)
{
    pst_trainer *t = trainer;
    const int last = t->stages - 1;
    pst_status status = PST_OK;
    if (!t->model.untied && last > 0)
        status =
            pst__trainer_copy(t, PST__OF_WEIGHTS, 0, t->slices[0].layout.wte, last,
                              t->slices[last].layout.head, t->weights[0].count, err);
    for (int i = t->stages; i < t->stages * t->replicas && status == PST_OK; i++)
        status = pst__trainer_copy(t, PST__OF_WEIGHTS, i % t->stages, 0, i, 0,
                                   t->slices[i].layout.weight_floats, err);
    return status;
}

void pst_trainer_ask_to_stop(pst_trainer *trainer)
{
    trainer->asked_to_stop = 1;
}

int pst_trainer_stops(const pst_trainer *trainer)
{
    return trainer->stops;
}

int64_t pst_trainer_steps(const pst_trainer *trainer)
{
    return trainer->steps;
}

char *pst_trainer_digest(const pst_trainer *trainer, char *text)
{
    const pst_trainer *t = trainer;
    size_t most = 0;
    text[0] = '\0';
    for (size_t i = 0; i < t->tensor_count; i++)
        most = t->weights[i].count > most ? t->weights[i].count : most;
    float *room = t->transport ? pst_allocate_array(&t->env, most, sizeof *room) : NULL;
    if (t->transport && !room)
        return text;
    pst__digest digest;
    pst_status status = PST_OK;
    pst__digest_begin(&digest);
    for (size_t i = 0; i < t->tensor_count && status == PST_OK; i++) {
        const float *data;
        status = pst__trainer_fetch_weight(t, i, room, &data, NULL);
        if (status == PST_OK)
            pst__digest_tensor(&digest, &t->weights[i], data);
    }
    if (status == PST_OK)
        pst__digest_end(&digest, text);
    pst_release(&t->env, room);
    return text;
}

pst_pipeline *pst_trainer_pipeline(const pst_trainer *trainer)
{
    return trainer->pipeline;
}
