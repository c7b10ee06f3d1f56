/* SPDX-License-Identifier: BSD-3-Clause */
/* reference_json.c - reads the JSON files of a reference. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <penstock/file.h>
#include <penstock/reference.h>
#include <penstock/text.h>

#include "sched/careful_json.h"

enum { PATH_SIZE = 1024, FILE_LIMIT = 64 << 20 };

/* One open JSON file, for messages that name it. */
typedef struct document {
    char path[PATH_SIZE];
    json_t *root;
} document;

static pst_status load(const pst_env *env, document *doc, const char *stem,
                       const char *ending, pst_error *err)
{
    int length = snprintf(doc->path, sizeof doc->path, "%s%s", stem, ending);
    if (length < 0 || (size_t)length >= sizeof doc->path)
        return pst_error_set(err, PST_EINVAL, "'%.64s...': the path is too long", stem);
    char *text;
    size_t bytes;
    pst_status status = pst_file_read(env, doc->path, FILE_LIMIT, &text, &bytes, err);
    if (status != PST_OK)
        return status;
    json_error_t found;
    bool no_memory;
    doc->root = pst__json_load(text, bytes, &found, &no_memory);
    pst_release(env, text);
    if (no_memory)
        return pst_error_no_memory(err, doc->path, bytes);
    if (doc->root == NULL)
        return pst_error_set_at(err, PST_EFORMAT, doc->path, found.line, "%s",
                                found.text);
    if (!json_is_object(doc->root))
        return pst_error_set_at(err, PST_EFORMAT, doc->path, 1, "not a JSON object");
    return PST_OK;
}

static pst_status bad_key(const document *doc, const char *key, const char *wanted,
                          pst_error *err)
{
    return pst_error_set_at(err, PST_EFORMAT, doc->path, 0, "\"%s\" must be %s", key,
                            wanted);
}

static pst_status read_int(const document *doc, const char *key, int *value,
                           pst_error *err)
{
    json_t *item = json_object_get(doc->root, key);
    json_int_t number = json_integer_value(item);
    if (!json_is_integer(item) || number < 1 || number > INT32_MAX)
        return bad_key(doc, key, "a positive whole number", err);
    *value = (int)number;
    return PST_OK;
}

static pst_status read_number(const document *doc, const json_t *object,
                              const char *key, double *value, pst_error *err)
{
    json_t *item = json_object_get(object, key);
    if (!json_is_number(item))
        return bad_key(doc, key, "a number", err);
    *value = json_number_value(item);
    return PST_OK;
}

/* Switches of Hugging Face's GPT-2 that change numbers must have the value we compute.
 */
static pst_status refuse_switches(const document *doc, pst_error *err)
{
    static const struct {
        const char *key;
        int must_be;
    } switches[] = {{"scale_attn_weights", 1},
                    {"scale_attn_by_inverse_layer_idx", 0},
                    {"reorder_and_upcast_attn", 0}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        json_t *item = json_object_get(doc->root, switches[i].key);
        if (item != NULL && json_is_true(item) != switches[i].must_be)
            return bad_key(doc, switches[i].key, switches[i].must_be ? "true" : "false",
                           err);
    }
    return PST_OK;
}

static pst_status read_activation(const document *doc, pst_gelu *gelu, pst_error *err)
{
    json_t *item = json_object_get(doc->root, "activation_function");
    const char *name = item == NULL ? "gelu_new" : json_string_value(item);
    if (name != NULL && strcmp(name, "gelu_new") == 0)
        *gelu = PST_GELU_TANH;
    else if (name != NULL && strcmp(name, "gelu") == 0)
        *gelu = PST_GELU_EXACT;
    else
        return bad_key(doc, "activation_function", "\"gelu_new\" or \"gelu\"", err);
    return PST_OK;
}

static pst_status read_config(const document *doc, pst_gpt_config *model,
                              pst_error *err)
{
    const char *type = json_string_value(json_object_get(doc->root, "model_type"));
    if (type == NULL || strcmp(type, "gpt2") != 0)
        return pst_error_set_at(err, PST_EINVAL, doc->path, 0,
                                "model_type is \"%s\"; \"gpt2\" can be checked",
                                type != NULL ? type : "");
    *model = (pst_gpt_config){.bias = 1};
    pst_status status;
    if ((status = read_int(doc, "n_layer", &model->layers, err)) ||
        (status = read_int(doc, "n_head", &model->heads, err)) ||
        (status = read_int(doc, "n_embd", &model->width, err)) ||
        (status = read_int(doc, "n_positions", &model->context, err)) ||
        (status = read_int(doc, "vocab_size", &model->vocabulary, err)) ||
        (status = refuse_switches(doc, err)) ||
        (status = read_activation(doc, &model->gelu, err)))
        return status;
    json_t *inner = json_object_get(doc->root, "n_inner");
    if (json_is_integer(inner) && json_integer_value(inner) != 4LL * model->width)
        return bad_key(doc, "n_inner", "null or four times n_embd", err);
    model->untied = json_is_false(json_object_get(doc->root, "tie_word_embeddings"));
    json_t *epsilon = json_object_get(doc->root, "layer_norm_epsilon");
    model->layernorm_epsilon =
        json_is_number(epsilon) ? (float)json_number_value(epsilon) : 1e-5f;
    return pst_gpt_config_complete(model, err);
}

/* Rows of equal length into out (rows, context); what lies behind a row stays as it is.
 */
static pst_status read_rows(const document *doc, const char *key, int lowest,
                            const pst_reference *ref, int32_t *out, pst_error *err)
{
    int rows = ref->sequences, length = ref->length;
    json_t *array = json_object_get(doc->root, key);
    if ((int)json_array_size(array) != rows)
        return bad_key(doc, key, "an array with as many rows as \"input_ids\"", err);
    for (int r = 0; r < rows; r++) {
        json_t *row = json_array_get(array, (size_t)r);
        if ((int)json_array_size(row) != length)
            return bad_key(doc, key, "rows of one length, at most n_positions", err);
        for (int i = 0; i < length; i++) {
            json_t *item = json_array_get(row, (size_t)i);
            json_int_t id = json_integer_value(item);
            if (!json_is_integer(item) || id < lowest || id >= ref->model.vocabulary)
                return bad_key(doc, key, "ids below vocab_size", err);
            out[(size_t)r * (size_t)ref->model.context + (size_t)i] = (int32_t)id;
        }
    }
    return PST_OK;
}

static pst_status read_tokens(const pst_env *env, const document *doc,
                              pst_reference *ref, pst_error *err)
{
    json_t *ids = json_object_get(doc->root, "input_ids");
    ref->sequences = (int)json_array_size(ids);
    ref->length = (int)json_array_size(json_array_get(ids, 0));
    if (ref->sequences < 1 || ref->length < 1 || ref->length > ref->model.context)
        return bad_key(doc, "input_ids", "rows of 1 to n_positions ids", err);
    size_t tokens = (size_t)ref->sequences * (size_t)ref->model.context;
    ref->inputs = pst_allocate_array(env, tokens, sizeof *ref->inputs);
    ref->labels = pst_allocate_array(env, tokens, sizeof *ref->labels);
    if (ref->inputs == NULL || ref->labels == NULL)
        return pst_error_no_memory(err, "tokens", tokens * sizeof *ref->inputs);
    for (size_t i = 0; i < tokens; i++)
        ref->labels[i] = PST_IGNORED_LABEL;
    pst_status status = read_rows(doc, "input_ids", 0, ref, ref->inputs, err);
    if (status != PST_OK)
        return status;
    return read_rows(doc, "labels", PST_IGNORED_LABEL, ref, ref->labels, err);
}

static pst_status read_expected(const pst_env *env, const document *doc,
                                pst_reference *ref, pst_error *err)
{
    json_t *adamw = json_object_get(doc->root, "adamw");
    json_t *betas = json_object_get(adamw, "betas");
    pst_adamw *o = &ref->optimizer;
    pst_status status;
    if ((status = read_number(doc, doc->root, "loss", &ref->loss, err)) ||
        (status =
             read_number(doc, doc->root, "gradient_norm", &ref->gradient_norm, err)) ||
        (status = read_number(doc, adamw, "lr", &o->lr, err)) ||
        (status = read_number(doc, adamw, "eps", &o->epsilon, err)) ||
        (status = read_number(doc, adamw, "weight_decay", &o->weight_decay, err)) ||
        (status = read_number(doc, adamw, "clip_norm", &o->clip, err)))
        return status;
    if (json_array_size(betas) != 2)
        return bad_key(doc, "betas", "two numbers", err);
    o->beta1 = json_number_value(json_array_get(betas, 0));
    o->beta2 = json_number_value(json_array_get(betas, 1));
    o->decay_all = json_is_true(json_object_get(adamw, "decay_all"));
    o->min_lr = o->lr;
    json_t *losses = json_object_get(doc->root, "losses");
    ref->steps = (int)json_array_size(losses);
    ref->losses = pst_allocate_array(env, (size_t)ref->steps, sizeof *ref->losses);
    if (ref->losses == NULL)
        return pst_error_no_memory(err, "losses", (size_t)ref->steps * sizeof(double));
    for (int i = 0; i < ref->steps; i++)
        ref->losses[i] = json_number_value(json_array_get(losses, (size_t)i));
    return PST_OK;
}

pst_status pst_reference_open(const pst_env *env, const char *stem, pst_reference **out,
                              pst_error *err)
{
    document config = {.root = NULL}, tokens = {.root = NULL},
             expected = {.root = NULL};
    pst_status status;
    pst_reference *ref = pst_allocate(env, sizeof *ref);
    if (ref == NULL)
        return pst_error_no_memory(err, "a reference", sizeof *ref);
    if ((status = load(env, &config, stem, ".config.json", err)) ||
        (status = read_config(&config, &ref->model, err)) ||
        (status = load(env, &tokens, stem, ".tokens.json", err)) ||
        (status = read_tokens(env, &tokens, ref, err)) ||
        (status = load(env, &expected, stem, ".expected.json", err)) ||
        (status = read_expected(env, &expected, ref, err)))
        goto out;
    *out = ref;
out:
    json_decref(config.root);
    json_decref(tokens.root);
    json_decref(expected.root);
    if (status != PST_OK)
        pst_reference_close(env, ref);
    return status;
}

void pst_reference_close(const pst_env *env, pst_reference *reference)
{
    if (reference == NULL)
        return;
    pst_release(env, reference->inputs);
    pst_release(env, reference->labels);
    pst_release(env, reference->losses);
    pst_release(env, reference);
}
