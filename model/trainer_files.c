/* SPDX-License-Identifier: BSD-3-Clause */
/* trainer_files.c - a trainer's weights from a file, its state to and from a folder. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <penstock/checkpoint.h>
#include <penstock/safetensors.h>

#include "model/trainer_peers.h"

/* ---- settings that a resumed run must share -------------------------------------- */

enum { MOST_SETTINGS = 32 };

typedef struct settings {
    pst_setting all[MOST_SETTINGS];
    size_t count;
} settings;

static void put(settings *s, const char *name, const char *format, ...)
    PST_PRINTF(3, 4);

static void put(settings *s, const char *name, const char *format, ...)
{
    pst_setting *own = &s->all[s->count++];
    va_list arguments;
    snprintf(own->name, sizeof own->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(own->value, sizeof own->value, format, arguments);
    va_end(arguments);
}

/* Sequences of each copy, as far as they fit; "equal" where none has a larger share. */
static void put_shares(settings *s, const pst_trainer *t)
{
    char text[sizeof s->all->value] = "";
    size_t used = 0;
    int equal = 1;
    for (int i = 0; i < t->copies; i++)
        equal &= t->share[i] ==
                 (size_t)(t->batch_size / t->copies + (i < t->batch_size % t->copies));
    for (int i = 0; i < t->copies && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu",
                                 i > 0 ? "," : "", t->share[i]);
    put(s, "shares", "%s", equal ? "equal" : text);
}

/* Everything that the bits of the weights depend on, apart from the data: the stages
 * only where they step by themselves. */
static void collect(settings *s, const pst_trainer *t)
{
    const pst_gpt_config *m = &t->model;
    const pst_adamw *o = &t->optimizer;
    s->count = 0;
    put(s, "layers", "%d", m->layers);
    put(s, "heads", "%d", m->heads);
    put(s, "width", "%d", m->width);
    put(s, "context", "%d", m->context);
    put(s, "vocabulary", "%d", m->vocabulary);
    put(s, "head", "%s", m->untied ? "untied" : "tied");
    put(s, "bias", "%s", m->bias ? "yes" : "no");
    put(s, "gelu", "%s", m->gelu == PST_GELU_TANH ? "tanh" : "exact");
    put(s, "dropout", "%.9g", (double)m->dropout);
    put(s, "layernorm_epsilon", "%.9g", (double)m->layernorm_epsilon);
    put(s, "batch", "%d", t->batch_size);
    put(s, "microbatches", "%d", t->microbatches / t->copies);
    put(s, "data_parallel", "%d", t->copies);
    put_shares(s, t);
    put(s, "slices", "%d", t->parts);
    put(s, "seed", "%" PRIu64, t->seed);
    put(s, "lr", "%.17g", o->lr);
    put(s, "min_lr", "%.17g", o->min_lr);
    put(s, "beta1", "%.17g", o->beta1);
    put(s, "beta2", "%.17g", o->beta2);
    put(s, "epsilon", "%.17g", o->epsilon);
    put(s, "weight_decay", "%.17g", o->weight_decay);
    put(s, "decay_all", "%s", o->decay_all ? "yes" : "no");
    put(s, "clip", "%.17g", o->clip);
    put(s, "warmup", "%" PRId64, o->warmup);
    put(s, "steps", "%" PRId64, o->steps);
    put(s, "updates", "%d", t->updates);
    if (t->updates == 0)
        return;
    put(s, "stages", "%d", t->stages);
    put(s, "weight_policy", "%s",
        t->weight_policy == PST_VERSIONS_DOUBLE ? "double" : "stash");
}

static pst_checkpoint state_of(const pst_trainer *t, settings *s)
{
    collect(s, t);
    return (pst_checkpoint){.step = t->steps,
                            .weights = t->weights,
                            .weight_count = t->tensor_count,
                            .optimizer = t->moments,
                            .optimizer_count = 2 * t->tensor_count,
                            .settings = s->all,
                            .setting_count = s->count,
                            .transport = t->transport};
}

/* Copies' moments are those of what they copy, since their gradients are. */
static pst_status refresh_moments(pst_trainer *t, pst_error *err)
{
    const int last = t->stages - 1;
    const pst__gpt_layout *from = &t->slices[0].layout, *to = &t->slices[last].layout;
    const size_t floats = t->weights[0].count;
    pst_status status = PST_OK;
    for (size_t second = 0; second < 2 && !t->model.untied && last > 0; second++)
        if (status == PST_OK)
            status = pst__trainer_copy(
                t, PST__OF_OPTIMIZER, 0, from->wte + second * from->weight_floats, last,
                to->head + second * to->weight_floats, floats, err);
    for (int i = t->stages; i < t->stages * t->replicas && status == PST_OK; i++)
        status = pst__trainer_copy(t, PST__OF_OPTIMIZER, i % t->stages, 0, i, 0,
                                   2 * t->slices[i].layout.weight_floats, err);
    return status;
}

pst_status pst_trainer_save(pst_trainer *trainer, const char *dir, pst_error *err)
{
    settings s;
    const pst_checkpoint state = state_of(trainer, &s);
    const pst_status status = pst_checkpoint_finish(trainer->writer, err);
    if (status != PST_OK)
        return status;
    return pst_checkpoint_save(&trainer->env, dir, &state, err);
}

pst_status pst_trainer_save_begin(pst_trainer *trainer, const char *dir, pst_error *err)
{
    settings s;
    const pst_checkpoint state = state_of(trainer, &s);
    return pst_checkpoint_begin(&trainer->env, dir, &state, &trainer->writer, err);
}

pst_status pst_trainer_save_poll(pst_trainer *trainer, pst_error *err)
{
    int done;
    return pst_checkpoint_poll(trainer->writer, &done, err);
}

pst_status pst_trainer_save_finish(pst_trainer *trainer, pst_error *err)
{
    return pst_checkpoint_finish(trainer->writer, err);
}

pst_status pst_trainer_resume(pst_trainer *trainer, const char *dir, pst_error *err)
{
    settings s;
    const pst_checkpoint state = state_of(trainer, &s);
    pst_status status =
        pst_checkpoint_load(&trainer->env, dir, &state, &trainer->steps, err);
    if (status == PST_OK)
        status = pst_trainer_refresh(trainer, err);
    return status == PST_OK ? refresh_moments(trainer, err) : status;
}

/* ---- weights from another program's file ----------------------------------------- */

/* A list of faults in one sentence, as many as fit. */
typedef struct faults {
    char text[600];
    size_t used;
    size_t count;
} faults;

static void add_fault(faults *f, const char *format, ...) PST_PRINTF(2, 3);

static void add_fault(faults *f, const char *format, ...)
{
    char own[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(own, sizeof own, format, arguments);
    va_end(arguments);
    f->count++;
    const size_t length = strlen(own);
    if (f->used + length + 2 >= sizeof f->text)
        return;
    f->used += (size_t)snprintf(f->text + f->used, sizeof f->text - f->used, "%s%s",
                                f->used > 0 ? ", " : "", own);
}

static const char *plain_name(const char *name)
{
    static const char prefix[] = "transformer.";
    const size_t length = sizeof prefix - 1;
    return strncmp(name, prefix, length) == 0 ? name + length : name;
}

static int ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* A causal mask that old exports of GPT-2 carry along. */
static int is_mask(const char *name)
{
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias");
}

static long find_weight(const pst_trainer *t, const char *name)
{
    for (size_t i = 0; i < t->tensor_count; i++)
        if (strcmp(t->weights[i].name, name) == 0)
            return (long)i;
    return -1;
}

static void shape_text(const pst_tensor *tensor, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < tensor->dims && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", i > 0 ? ", " : "",
                                 tensor->shape[i]);
    if (used < size)
        snprintf(text + used, size - used, ")");
}

static int same_shape(const pst_tensor *a, const pst_tensor *b)
{
    return a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

/* Where in the file each weight is; -1 not found. */
static void match(const pst_trainer *t, const pst_safetensors *file, long *index,
                  faults *f)
{
    for (size_t i = 0; i < t->tensor_count; i++)
        index[i] = -1;
    for (size_t i = 0; i < pst_safetensors_count(file); i++) {
        const pst_tensor *tensor = pst_safetensors_tensor(file, i, NULL);
        const char *name = plain_name(tensor->name);
        const long weight = find_weight(t, name);
        char found[64], wanted[64];
        if (weight < 0) {
            if (!is_mask(name) &&
                (t->model.untied || strcmp(name, "lm_head.weight") != 0))
                add_fault(f, "%s is not in the model", name);
            continue;
        }
        index[weight] = (long)i;
        if (same_shape(tensor, &t->weights[weight]))
            continue;
        shape_text(tensor, found, sizeof found);
        shape_text(&t->weights[weight], wanted, sizeof wanted);
        add_fault(f, "%s has shape %s and the model %s", name, found, wanted);
    }
    for (size_t i = 0; i < t->tensor_count; i++)
        if (index[i] < 0)
            add_fault(f, "%s is missing", t->weights[i].name);
}

/* All into one buffer first, so that an error changes no weight. */
static pst_status read_all(pst_trainer *t, pst_safetensors *file, const long *index,
                           pst_error *err)
{
    size_t floats = 0;
    for (size_t i = 0; i < t->tensor_count; i++)
        floats += t->weights[i].count;
    float *held = pst_allocate_array(&t->env, floats, sizeof *held), *to = held;
    if (!held)
        return pst_error_no_memory(err, "weights", floats * sizeof *held);
    pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK && i < t->tensor_count;
         to += t->weights[i++].count)
        status = pst_safetensors_read(file, (size_t)index[i], to, err);
    to = held;
    for (size_t i = 0; status == PST_OK && i < t->tensor_count;
         to += t->weights[i++].count)
        if (t->weights[i].data)
            memcpy(t->weights[i].data, to, t->weights[i].count * sizeof *to);
    pst_release(&t->env, held);
    return status == PST_OK ? pst_trainer_refresh(t, err) : status;
}

pst_status pst_trainer_load_weights(pst_trainer *trainer, const char *path,
                                    pst_error *err)
{
    pst_safetensors *file;
    faults f = {.used = 0};
    pst_status status = pst_safetensors_open(&trainer->env, path, &file, err);
    if (status != PST_OK)
        return status;
    long *index =
        pst_allocate_array(&trainer->env, trainer->tensor_count, sizeof *index);
    if (!index) {
        status = pst_error_no_memory(err, path, 0);
        goto out;
    }
    match(trainer, file, index, &f);
    if (f.count > 0)
        status = pst_error_set(err, PST_EINVAL,
                               "%s does not fit the model (%zu difference%s): %s", path,
                               f.count, f.count > 1 ? "s" : "", f.text);
    else
        status = read_all(trainer, file, index, err);
    pst_release(&trainer->env, index);
out:
    pst_safetensors_close(file);
    return status;
}
