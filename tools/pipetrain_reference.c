/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipetrain_reference.c - --check-reference: our numbers beside another program's.
 *
 * Prints, for the logits, the loss, each gradient and the losses of the AdamW steps,
 * the largest error relative to the largest element expected.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/reference.h>
#include <penstock/safetensors.h>

#include "tools/pipetrain.h"
#include "tools/processes.h"
#include "tools/say.h"

/* Largest errors allowed; a tensor below `nothing` throughout is zero in mathematics,
 * and what rounding leaves of it must stay below `zero_limit`. */
static const double limit = 1e-4, nothing = 1e-12, zero_limit = 1e-6;

typedef struct comparison {
    const pst_reference *reference;
    pst_trainer *trainer;
    pst_safetensors *expected;
    int failures;
    double worst; /* relative error                                            */
} comparison;

static void compare(comparison *c, const char *name, const float *ours,
                    const float *expected, size_t count)
{
    double largest = 0, error = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)ours[i] - (double)expected[i]);
        largest = fmax(largest, fabs((double)expected[i]));
        error = difference > error || isnan(difference) ? difference : error;
    }
    int zero = largest < nothing;
    double shown = zero ? error : error / largest;
    int good = shown <= (zero ? zero_limit : limit);
    if (!good)
        c->failures++;
    if (!zero && !(shown <= c->worst))
        c->worst = shown;
    printf("%-34s %.2e %s%s\n", name, shown, zero ? "absolute (zero)" : "relative",
           good ? "" : "   TOO LARGE");
}

static void compare_number(comparison *c, const char *name, double ours,
                           double expected)
{
    float a = (float)ours, b = (float)expected;
    compare(c, name, &a, &b, 1);
}

static pst_status read_expected(comparison *c, const char *name, size_t count,
                                float **data, pst_error *err)
{
    long index = pst_safetensors_find(c->expected, name);
    if (index < 0)
        return pst_error_set(err, PST_EFORMAT, "the expected values have no '%s'",
                             name);
    size_t found = pst_safetensors_tensor(c->expected, (size_t)index, NULL)->count;
    if (found != count)
        return pst_error_set(err, PST_EFORMAT, "'%s' has %zu elements, not %zu", name,
                             found, count);
    *data = calloc(count, sizeof **data);
    if (*data == NULL)
        return pst_error_no_memory(err, name, count * sizeof **data);
    pst_status status = pst_safetensors_read(c->expected, (size_t)index, *data, err);
    if (status != PST_OK) {
        free(*data);
        *data = NULL;
    }
    return status;
}

/* The rows of a file may be shorter than the context; what was padded is left out. */
static void drop_padding(float *logits, const pst_reference *reference)
{
    size_t v = (size_t)reference->model.vocabulary;
    size_t kept = (size_t)reference->length * v;
    size_t full = (size_t)reference->model.context * v;
    for (size_t row = 1; row < (size_t)reference->sequences; row++)
        memmove(logits + row * kept, logits + row * full, kept * sizeof *logits);
}

static pst_status compare_logits(comparison *c, pst_error *err)
{
    const pst_reference *ref = c->reference;
    size_t v = (size_t)ref->model.vocabulary, rows = (size_t)ref->sequences;
    size_t kept = rows * (size_t)ref->length * v;
    float *expected = NULL;
    float *ours = calloc(rows * (size_t)ref->model.context * v, sizeof *ours);
    if (ours == NULL)
        return pst_error_no_memory(err, "logits", kept * sizeof *ours);
    pst_status status =
        pst_trainer_logits(c->trainer, ref->sequences, ref->inputs, ours, err);
    if (status == PST_OK)
        status = read_expected(c, "logits", kept, &expected, err);
    if (status == PST_OK) {
        drop_padding(ours, ref);
        compare(c, "logits", ours, expected, kept);
    }
    free(expected);
    free(ours);
    return status;
}

static pst_status compare_gradients(comparison *c, pst_error *err)
{
    pst_step_report report;
    pst_status status = pst_trainer_gradient(c->trainer, c->reference->inputs,
                                             c->reference->labels, &report, err);
    if (status != PST_OK)
        return status;
    compare_number(c, "loss", report.loss, c->reference->loss);
    compare_number(c, "gradient norm", report.gradient_norm,
                   c->reference->gradient_norm);
    size_t count;
    const pst_tensor *gradients = pst_trainer_gradients(c->trainer, &count);
    for (size_t i = 0; i < count; i++) {
        char name[PST_TENSOR_NAME_SIZE + 8];
        float *expected;
        snprintf(name, sizeof name, "grad.%s", gradients[i].name);
        status = read_expected(c, name, gradients[i].count, &expected, err);
        if (status != PST_OK)
            return status;
        compare(c, name, gradients[i].data, expected, gradients[i].count);
        free(expected);
    }
    return PST_OK;
}

static pst_status compare_steps(comparison *c, pst_error *err)
{
    for (int i = 0; i < c->reference->steps; i++) {
        pst_step_report report;
        pst_status status = pst_trainer_step(c->trainer, c->reference->inputs,
                                             c->reference->labels, &report, err);
        if (status != PST_OK)
            return status;
        char name[32];
        snprintf(name, sizeof name, "loss before step %d", i + 1);
        compare_number(c, name, report.loss, c->reference->losses[i]);
    }
    return PST_OK;
}

/* STEM with an ending, into `path`. */
static pst_status path_of(const char *stem, const char *ending, char *path, size_t size,
                          pst_error *err)
{
    int length = snprintf(path, size, "%s%s", stem, ending);
    if (length < 0 || (size_t)length >= size)
        return pst_error_set(err, PST_EINVAL, "'%.64s...': the path is too long", stem);
    return PST_OK;
}

static pst_status open_trainer(comparison *c, const pipetrain_settings *settings,
                               pst_schedule **schedule, pst_error *err)
{
    char path[1024];
    pipetrain_settings shape = *settings;
    /* Each row is one. */
    shape.microbatches =
        c->reference->sequences / (shape.data_parallel ? shape.data_parallel : 1);
    shape.batch = c->reference->sequences;
    pst_status status;
    if ((status = pipetrain_schedule(&shape, schedule, err)))
        return status;
    pst_trainer_options options = {.model = c->reference->model,
                                   .optimizer = c->reference->optimizer,
                                   .batch = c->reference->sequences,
                                   .schedule = *schedule,
                                   .seed = 1};
    if ((status = pst_trainer_create(NULL, &options, &c->trainer, err)) ||
        (status = path_of(settings->check_reference, ".safetensors", path, sizeof path,
                          err)) ||
        (status = pst_trainer_load_weights(c->trainer, path, err)) ||
        (status = path_of(settings->check_reference, ".expected.safetensors", path,
                          sizeof path, err)))
        return status;
    return pst_safetensors_open(NULL, path, &c->expected, err);
}

/* 1 where a launcher has started several processes: said once, by the first. */
static int refuse_several(void)
{
    const pst_env env = {.log = say_log};
    pst_error err = PST_ERROR_INIT;
    processes own = {.leads = 0};
    if (processes_join(&env, &own, &err) != PST_OK)
        return say_failure(&err);
    if (own.transport == NULL)
        return 0;
    if (own.leads)
        say_error("--check-reference compares in one process, and %s has started %d; "
                  "the same without it would work",
                  own.launch.launcher, own.transport->processes);
    processes_leave(&own);
    return 1;
}

int pipetrain_check_reference(const pipetrain_settings *settings)
{
    if (refuse_several())
        return 1;
    pst_error err = PST_ERROR_INIT;
    pst_reference *reference = NULL;
    pst_schedule *schedule = NULL;
    comparison c = {.failures = 0};
    pst_status status =
        pst_reference_open(NULL, settings->check_reference, &reference, &err);
    c.reference = reference;
    if (status == PST_OK)
        status = open_trainer(&c, settings, &schedule, &err);
    if (status == PST_OK)
        status = compare_logits(&c, &err);
    if (status == PST_OK)
        status = compare_gradients(&c, &err);
    if (status == PST_OK)
        status = compare_steps(&c, &err);
    if (status != PST_OK)
        say_failure(&err);
    else
        printf("largest relative error %.2e, limit %.0e: %s\n", c.worst, limit,
               c.failures == 0 ? "agrees" : "DOES NOT AGREE");
    pst_safetensors_close(c.expected);
    pst_trainer_destroy(c.trainer);
    pst_schedule_destroy(schedule);
    pst_reference_close(NULL, reference);
    return status != PST_OK || c.failures != 0;
}
