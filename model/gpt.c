/* SPDX-License-Identifier: BSD-3-Clause */
/* gpt.c - a GPT's configuration, and the list of its parameters stage by stage. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <penstock/gpt.h>

#include "model/gpt_layout.h"

#define ALIGNMENT_FLOATS 16

/* Limits far beyond use that keep every product of two sizes below 2^63. */
#define MOST_LAYERS     65535
#define MOST_WIDTH      65536
#define MOST_CONTEXT    (1 << 20)
#define MOST_VOCABULARY (1 << 24)

/* One parameter of a block; sizes in units of the width. */
typedef struct block_part {
    const char *name;
    int rows; /* 0: a vector                                                   */
    int columns;
    int is_bias;
} block_part;

/* By enum pst_block_part: Hugging Face's names. */
static const block_part block_parts[PST_BLOCK_PARTS] = {
    {"ln_1.weight", 0, 1, 0},        {"ln_1.bias", 0, 1, 1},
    {"attn.c_attn.weight", 1, 3, 0}, {"attn.c_attn.bias", 0, 3, 1},
    {"attn.c_proj.weight", 1, 1, 0}, {"attn.c_proj.bias", 0, 1, 1},
    {"ln_2.weight", 0, 1, 0},        {"ln_2.bias", 0, 1, 1},
    {"mlp.c_fc.weight", 1, 4, 0},    {"mlp.c_fc.bias", 0, 4, 1},
    {"mlp.c_proj.weight", 4, 1, 0},  {"mlp.c_proj.bias", 0, 1, 1},
};

static void set_default(int *value, int otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static pst_status check_range(const char *what, int value, int most, pst_error *err)
{
    if (value < 1 || value > most)
        return pst_error_set(err, PST_EINVAL, "%s %d; it must be 1 .. %d", what, value,
                             most);
    return PST_OK;
}

/* The divisors of `width` around `heads`, as advice. */
static int divisor_below(int width, int heads)
{
    int divisor = heads < width ? heads : width;
    while (width % divisor != 0)
        divisor--;
    return divisor;
}

static int divisor_above(int width, int heads)
{
    int divisor = heads;
    while (divisor < width && width % divisor != 0)
        divisor++;
    return divisor;
}

static pst_status check_heads(const pst_gpt_config *config, pst_error *err)
{
    if (config->width % config->heads == 0)
        return PST_OK;
    if (config->heads > config->width)
        return pst_error_set(
            err, PST_EINVAL,
            "%d heads for width %d; heads must divide the width: %d works",
            config->heads, config->width, config->width);
    return pst_error_set(
        err, PST_EINVAL,
        "%d heads for width %d; heads must divide the width: %d or %d works",
        config->heads, config->width, divisor_below(config->width, config->heads),
        divisor_above(config->width, config->heads));
}

pst_status pst_gpt_config_complete(pst_gpt_config *config, pst_error *err)
{
    pst_gpt_config c = *config;
    set_default(&c.layers, 4);
    set_default(&c.heads, 4);
    set_default(&c.width, 128);
    set_default(&c.context, 64);
    set_default(&c.vocabulary, 256);
    if (c.layernorm_epsilon == 0.0f)
        c.layernorm_epsilon = 1e-5f;

    pst_status status;
    if ((status = check_range("layers", c.layers, MOST_LAYERS, err)) != PST_OK ||
        (status = check_range("heads", c.heads, MOST_WIDTH, err)) != PST_OK ||
        (status = check_range("width", c.width, MOST_WIDTH, err)) != PST_OK ||
        (status = check_range("context", c.context, MOST_CONTEXT, err)) != PST_OK ||
        (status = check_range("vocabulary", c.vocabulary, MOST_VOCABULARY, err)) !=
            PST_OK ||
        (status = check_heads(&c, err)) != PST_OK)
        return status;
    if (c.gelu != PST_GELU_EXACT && c.gelu != PST_GELU_TANH)
        return pst_error_set(err, PST_EINVAL, "gelu form %d; 0 is exact and 1 is tanh",
                             (int)c.gelu);
    if (!(c.dropout >= 0.0f && c.dropout < 1.0f))
        return pst_error_set(err, PST_EINVAL, "dropout %g; it must be 0 .. below 1",
                             (double)c.dropout);
    if (!(c.layernorm_epsilon > 0.0f && c.layernorm_epsilon < 1.0f))
        return pst_error_set(err, PST_EINVAL,
                             "layer norm epsilon %g; it must be above 0 and below 1",
                             (double)c.layernorm_epsilon);
    c.untied = c.untied != 0;
    c.bias = c.bias != 0;
    *config = c;
    return PST_OK;
}

void pst_gpt_blocks(const pst_gpt_config *config, int stage, int stages, int *first,
                    int *last)
{
    int each = config->layers / stages;
    int larger = config->layers % stages;
    *first = stage * each + (stage < larger ? stage : larger);
    *last = *first + each + (stage < larger);
}

/* A growing list of parameters, and of floats. */
typedef struct listing {
    pst_parameter *parameters;
    size_t capacity;
    size_t count;
    size_t floats;
} listing;

/* Append one tensor, rows = 0 for a vector; returns its offset. */
static size_t append(listing *list, size_t rows, size_t columns, int tied_copy,
                     const char *name_format, ...) PST_PRINTF(5, 6);

static size_t append(listing *list, size_t rows, size_t columns, int tied_copy,
                     const char *name_format, ...)
{
    size_t offset = list->floats;
    size_t count = rows > 0 ? rows * columns : columns;
    if (list->count < list->capacity && list->parameters != NULL) {
        pst_parameter *p = &list->parameters[list->count];
        memset(p, 0, sizeof *p);
        va_list arguments;
        va_start(arguments, name_format);
        vsnprintf(p->tensor.name, sizeof p->tensor.name, name_format, arguments);
        va_end(arguments);
        p->tensor.dims = rows > 0 ? 2 : 1;
        p->tensor.shape[0] = rows > 0 ? rows : columns;
        p->tensor.shape[1] = rows > 0 ? columns : 0;
        p->tensor.count = count;
        p->offset = offset;
        p->decays = rows > 0;
        p->tied_copy = tied_copy;
    }
    list->count++;
    list->floats +=
        (count + ALIGNMENT_FLOATS - 1) / ALIGNMENT_FLOATS * ALIGNMENT_FLOATS;
    return offset;
}

static void append_block(listing *list, pst__gpt_layout *layout,
                         const pst_gpt_config *config, int block)
{
    size_t width = (size_t)config->width;
    size_t start = list->floats;
    for (int i = 0; i < PST_BLOCK_PARTS; i++) {
        const block_part *part = &block_parts[i];
        layout->part[i] = PST_NOWHERE;
        if (!part->is_bias || config->bias)
            layout->part[i] =
                append(list, (size_t)part->rows * width, (size_t)part->columns * width,
                       0, "h.%d.%s", block, part->name) -
                start;
    }
    layout->block_stride = list->floats - start;
}

/* The one walk over a stage's parameters: it makes the list and the layout. */
static void walk(const pst_gpt_config *config, int stage, int stages, listing *list,
                 pst__gpt_layout *layout)
{
    size_t width = (size_t)config->width;
    size_t vocabulary = (size_t)config->vocabulary;
    layout->wte = layout->wpe = PST_NOWHERE;
    layout->ln_f_weight = layout->ln_f_bias = PST_NOWHERE;
    layout->head = layout->head_gradient = PST_NOWHERE;

    pst_gpt_blocks(config, stage, stages, &layout->first, &layout->last);
    if (stage == 0) {
        layout->wte = append(list, vocabulary, width, 0, "wte.weight");
        layout->wpe = append(list, (size_t)config->context, width, 0, "wpe.weight");
    }
    layout->blocks = list->floats;
    for (int block = layout->first; block < layout->last; block++)
        append_block(list, layout, config, block);
    layout->weight_floats = list->floats;
    if (stage == stages - 1) {
        layout->ln_f_weight = append(list, 0, width, 0, "ln_f.weight");
        if (config->bias)
            layout->ln_f_bias = append(list, 0, width, 0, "ln_f.bias");
        layout->weight_floats = list->floats;
        /* Last, so that weights may end before it where wte itself is the head. */
        layout->head_gradient =
            append(list, vocabulary, width, !config->untied, "lm_head.weight");
        layout->head = layout->head_gradient;
        if (stage == 0 && !config->untied)
            layout->head = layout->wte;
        else
            layout->weight_floats = list->floats;
    }
    layout->gradient_floats = list->floats;
}

size_t pst_gpt_parameters(const pst_gpt_config *config, int stage, int stages,
                          pst_parameter *parameters, size_t capacity, size_t *floats)
{
    listing list = {parameters, capacity, 0, 0};
    pst__gpt_layout layout;
    walk(config, stage, stages, &list, &layout);
    if (floats != NULL)
        *floats = layout.weight_floats;
    return list.count;
}

void pst__gpt_layout_init(pst__gpt_layout *layout, const pst_gpt_config *config,
                          int stage, int stages)
{
    listing list = {NULL, 0, 0, 0};
    memset(layout, 0, sizeof *layout);
    walk(config, stage, stages, &list, layout);
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Source: nanoGPT's model.py; c_proj by GPT-2's paper. */
pst__gpt_initial pst__gpt_initial_of(const pst_gpt_config *config,
                                     const pst_tensor *tensor)
{
    pst__gpt_initial initial = {0.0f, 0.0f};
    if (tensor->dims == 1)
        initial.constant = ends_with(tensor->name, ".weight") ? 1.0f : 0.0f;
    else if (ends_with(tensor->name, ".c_proj.weight"))
        initial.deviation = (float)(0.02 / sqrt(2.0 * config->layers));
    else
        initial.deviation = 0.02f;
    return initial;
}
