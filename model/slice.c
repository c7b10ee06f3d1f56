/* SPDX-License-Identifier: BSD-3-Clause */
/* slice.c - the callbacks of a stage that holds blocks of a GPT. */
#include "model/slice.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/block.h"
#include "model/spread.h"

/* The embedding's dropout: the place that block 0 leaves free. */
enum { DROP_EMBEDDING = 3 };

/* Logits of a forward-only run are made for so many floats at a time: 4 MiB. */
enum { LOGITS_AT_ONCE = 1 << 20 };

/* One microbatch, or one part of its sequences, on one slice. */
typedef struct part {
    const pst__slice *slice;
    size_t microbatch; /* counted over all replicas                      */
    size_t unit;       /* of `loss`: counted over all replicas and parts   */
    size_t first;      /* its first sequence in the batch                 */
    float *sequence;   /* what the parts of its sequences share, or NULL  */
    pst__block_shape shape;
    size_t n;              /* tokens                                          */
    const int32_t *inputs; /* (b, t)                                          */
    const int32_t *labels; /* (b, t) or NULL                                  */
    int has_embedding;
    int has_head;
} part;

/*
 * Everything that outlives a callback. Streams are the (n, c) between blocks that the
 * slice itself has made: block 0's x where it embeds, each further block's x, and the
 * final norm's x where it has the head.
 */
typedef struct saved {
    float *streams;     /* for input                                           */
    size_t stream;      /* floats from one to the next                         */
    float *mean, *rstd; /* for input: (n) of the final norm                    */
    float *normed;      /* for weight: (n, c) the final norm's output          */
    float *dlogits;     /* for weight: (n, v)                                  */
    pst__carve input;   /* block 0's part begins here, the others' at a stride */
    pst__carve weight;
    size_t input_stride;
    size_t weight_stride;
} saved;

typedef struct kept {
    float *dembedded; /* (n, c), stage 0 only                                  */
    float *dln_f, *dln_f_bias;
    pst__carve carve; /* the blocks' follow, the last block's first            */
} kept;

static pst__block_shape shape_of(const pst__slice *slice, size_t b, size_t t)
{
    const pst_gpt_config *config = slice->config;
    return (pst__block_shape){.b = b,
                              .t = t,
                              .c = (size_t)config->width,
                              .h = (size_t)config->heads,
                              .tanh_form = config->gelu == PST_GELU_TANH,
                              .epsilon = config->layernorm_epsilon,
                              .members = slice->members};
}

static size_t block_count(const pst__slice *slice)
{
    return (size_t)(slice->layout.last - slice->layout.first);
}

static part part_of(const pst__slice *slice, const pst_work *work)
{
    const pst__batch *batch = slice->batch;
    const size_t microbatch =
        (size_t)(slice->replica * batch->per_replica + work->microbatch);
    const size_t first = batch->first[microbatch];
    const size_t b = batch->first[microbatch + 1] - first;
    const size_t parts = (size_t)work->slices, index = (size_t)work->slice;
    const size_t start = pst__part_start(batch->length, parts, index);
    const size_t t = pst__part_start(batch->length, parts, index + 1) - start;
    const size_t token = first * batch->length + b * start;
    part p = {.slice = slice,
              .microbatch = microbatch,
              .unit = microbatch * parts + index,
              .first = first,
              .sequence = work->sequence,
              .shape = shape_of(slice, b, t),
              .n = b * t,
              .inputs = batch->inputs + token,
              .labels = batch->labels ? batch->labels + token : NULL,
              .has_embedding = slice->layout.wte != PST_NOWHERE,
              .has_head = slice->layout.head != PST_NOWHERE};
    p.shape.team = work->team;
    if (parts > 1)
        p.shape.sequence = (pst_sequence){.start = start, .length = batch->length};
    if (work->training) {
        p.shape.dropout.rate = slice->config->dropout;
        memcpy(p.shape.dropout.key, batch->dropout_key, sizeof p.shape.dropout.key);
        p.shape.dropout.step = batch->dropout_step;
        p.shape.dropout.sequence = (uint32_t)first;
    }
    return p;
}

/* Floats of the kv of one block, or of its dkv; 0: sequences are whole. */
static size_t sequence_stride(const part *p)
{
    const pst__block_shape *s = &p->shape;
    return (s->b * s->sequence.length * 2 * s->c + 15) / 16 * 16;
}

static pst__block_shape block_shape(const part *p, size_t block)
{
    pst__block_shape shape = p->shape;
    if (p->sequence) {
        shape.sequence.kv = p->sequence + 2 * block * sequence_stride(p);
        shape.sequence.dkv = shape.sequence.kv + sequence_stride(p);
    }
    shape.dropout.place = 4 * (uint32_t)((size_t)p->slice->layout.first + block);
    return shape;
}

/* Streams that stand in front of block's own x. */
static size_t stream_index(const part *p, size_t block)
{
    return block - (p->has_embedding ? 0 : 1);
}

static void count_strides(const part *p, saved *s)
{
    pst__carve input = {0}, weight = {0};
    pst__block_input_part input_part;
    pst__block_weight_part weight_part;
    pst__block_carve_input_part(&input_part, &p->shape, &input);
    pst__block_carve_weight_part(&weight_part, &p->shape, &weight);
    s->input_stride = input.used;
    s->weight_stride = weight.used;
}

static saved carve_saved(const part *p, void *for_input, void *for_weight)
{
    const size_t n = p->n, c = p->shape.c;
    const size_t streams =
        stream_index(p, block_count(p->slice)) + (p->has_head ? 1 : 0);
    saved s = {.input = {.base = for_input}, .weight = {.base = for_weight}};
    s.stream = (n * c + 15) / 16 * 16;
    s.streams = pst__carve_take(&s.input, streams * s.stream);
    if (p->has_head) {
        s.mean = pst__carve_take(&s.input, n);
        s.rstd = pst__carve_take(&s.input, n);
        s.normed = pst__carve_take(&s.weight, n * c);
        s.dlogits =
            pst__carve_take(&s.weight, n * (size_t)p->slice->config->vocabulary);
    }
    count_strides(p, &s);
    return s;
}

/* The x of `block`; of the block behind the last, what the final norm reads. */
static float *stream_of(const part *p, const saved *s, size_t block)
{
    return s->streams + stream_index(p, block) * s->stream;
}

static const float *block_x(const part *p, const saved *s, size_t block,
                            const pst_work *work)
{
    return block == 0 && !p->has_embedding ? work->input : stream_of(p, s, block);
}

static float *block_y(const part *p, const saved *s, size_t block, const pst_work *work)
{
    const int inside = block + 1 < block_count(p->slice) || p->has_head;
    return inside ? stream_of(p, s, block + 1) : work->output;
}

static pst__block_input_part input_part_of(const part *p, const saved *s, size_t block)
{
    pst__carve carve = s->input;
    pst__block_input_part part;
    carve.used += block * s->input_stride;
    pst__block_carve_input_part(&part, &p->shape, &carve);
    return part;
}

static pst__block_weight_part weight_part_of(const part *p, const saved *s,
                                             size_t block)
{
    pst__carve carve = s->weight;
    pst__block_weight_part part;
    carve.used += block * s->weight_stride;
    pst__block_carve_weight_part(&part, &p->shape, &carve);
    return part;
}

static kept carve_kept(const part *p, void *base)
{
    kept k = {.carve = {.base = base}};
    if (p->has_embedding)
        k.dembedded = pst__carve_take(&k.carve, p->n * p->shape.c);
    if (p->has_head) {
        k.dln_f = pst__carve_take(&k.carve, p->shape.c);
        k.dln_f_bias = pst__carve_take(&k.carve, p->shape.c);
    }
    return k;
}

/* The last block's dy is the stage's output_grad unless the slice has the head. */
static void carve_block_kept(const part *p, kept *k, size_t block,
                             const float *output_grad, pst__block_kept *own)
{
    const int own_dy = p->has_head || block + 1 < block_count(p->slice);
    pst__block_carve_kept(own, &p->shape, own_dy, &k->carve);
    if (own_dy)
        return;
    own->dy = (float *)output_grad; /* read only: block.h says who fills it */
    if (!(p->shape.dropout.rate > 0))
        own->dmlp = own->dy;
}

static const float *weight_at(const pst_work *work, size_t offset)
{
    return offset == PST_NOWHERE ? NULL : (const float *)work->weights + offset;
}

static const float *block_weights(const part *p, const pst_work *work, size_t block)
{
    return weight_at(work,
                     p->slice->layout.blocks + block * p->slice->layout.block_stride);
}

/* ---- the ends of the model --------------------------------------------------- */

static void embed(const part *p, const pst_work *work, float *y)
{
    const pst__gpt_layout *layout = &p->slice->layout;
    const pst__block_shape *s = &p->shape;
    const size_t before = s->sequence.start * s->c;
    pst__embedding_forward(y, weight_at(work, layout->wte),
                           weight_at(work, layout->wpe) + before, p->inputs, s->b, s->t,
                           s->c);
    if (s->dropout.rate > 0) {
        pst_dropout dropout = s->dropout;
        dropout.place = DROP_EMBEDDING;
        dropout.element = (uint32_t)before;
        pst__spread_dropout(s->team, y, y, p->n * s->c, s->t * s->c, &dropout);
    }
}

static void final_norm(const part *p, const pst_work *work, float *normed, float *mean,
                       float *rstd, const float *x)
{
    const pst__gpt_layout *layout = &p->slice->layout;
    pst__spread_layernorm(
        p->shape.team, normed, mean, rstd, x, weight_at(work, layout->ln_f_weight),
        weight_at(work, layout->ln_f_bias), p->n, p->shape.c, p->shape.epsilon);
}

static void head(const part *p, const pst_work *work, float *logits,
                 const float *normed, size_t n)
{
    pst__linear_forward(p->shape.team, logits, normed,
                        weight_at(work, p->slice->layout.head), NULL, n, p->shape.c,
                        (size_t)p->slice->config->vocabulary, PST_OUT_IN);
}

/* Loss, and its gradient in the logits' place, for backward. */
static void training_head(const part *p, const pst_work *work, const saved *s)
{
    const pst__batch *batch = p->slice->batch;
    double *loss = &batch->loss[p->unit];
    final_norm(p, work, s->normed, s->mean, s->rstd,
               stream_of(p, s, block_count(p->slice)));
    head(p, work, s->dlogits, s->normed, p->n);
    pst__spread_cross_entropy(p->shape.team, s->dlogits, p->labels, p->n,
                              (size_t)p->slice->config->vocabulary,
                              batch->loss_scale[p->microbatch], 1, loss);
}

/* The rows of each sequence's last token, packed in front. */
static void gather_last(const part *p, float *rows)
{
    const size_t c = p->shape.c, t = p->shape.t;
    for (size_t i = 0; i < p->shape.b; i++)
        memmove(rows + i * c, rows + (i * t + t - 1) * c, c * sizeof *rows);
}

/* Rows of logits that a forward-only run makes at once. */
static size_t rows_at_once(const pst_gpt_config *config)
{
    const size_t rows = LOGITS_AT_ONCE / (size_t)config->vocabulary;
    return rows > 0 ? rows : 1;
}

static void forward_only_head(const part *p, const pst_work *work, const float *x,
                              float *normed, float *mean, float *rstd, float *logits)
{
    const pst__batch *batch = p->slice->batch;
    const size_t v = (size_t)p->slice->config->vocabulary, c = p->shape.c;
    size_t n = p->n, first = p->first * p->shape.t;
    final_norm(p, work, normed, mean, rstd, x);
    if (batch->last_position_only) {
        gather_last(p, normed);
        n = p->shape.b;
        first = p->first;
    }
    if (batch->logits)
        head(p, work, batch->logits + first * v, normed, n);
    if (!p->labels)
        return;
    double *loss = &batch->loss[p->unit];
    *loss = 0;
    const size_t step = rows_at_once(p->slice->config);
    for (size_t row = 0; row < n; row += step) {
        const size_t count = n - row < step ? n - row : step;
        head(p, work, logits, normed + row * c, count);
        double more;
        pst__spread_cross_entropy(p->shape.team, logits, p->labels + row, count, v, 1,
                                  0, &more);
        *loss += more;
    }
}

/* ---- forward ------------------------------------------------------------------ */

static void training_forward(const part *p, pst_work *work)
{
    const saved s = carve_saved(p, work->saved_for_input, work->saved_for_weight);
    if (p->has_embedding)
        embed(p, work, stream_of(p, &s, 0));
    for (size_t block = 0; block < block_count(p->slice); block++) {
        const pst__block_shape shape = block_shape(p, block);
        const pst__block_input_part input = input_part_of(p, &s, block);
        const pst__block_weight_part weight = weight_part_of(p, &s, block);
        pst__block_forward(block_y(p, &s, block, work), block_x(p, &s, block, work),
                           &shape, &p->slice->layout, block_weights(p, work, block),
                           &input, &weight, work->scratch);
    }
    if (p->has_head)
        training_head(p, work, &s);
}

/* What a forward-only run needs, the same for every block. */
typedef struct transient {
    float *x;
    pst__block_input_part input;
    pst__block_weight_part weight;
    float *scratch;
    float *logits;
    size_t used;
} transient;

static transient carve_transient(const part *p, float *base)
{
    pst__carve carve = {.base = base};
    transient t;
    t.x = pst__carve_take(&carve, p->n * p->shape.c);
    pst__block_carve_input_part(&t.input, &p->shape, &carve);
    pst__block_carve_weight_part(&t.weight, &p->shape, &carve);
    t.scratch = pst__carve_take(&carve, pst__block_scratch(&p->shape));
    t.logits = NULL;
    if (p->has_head)
        t.logits = pst__carve_take(&carve, rows_at_once(p->slice->config) *
                                               (size_t)p->slice->config->vocabulary);
    t.used = carve.used;
    return t;
}

static void forward_only(const part *p, pst_work *work)
{
    assert(work->slices == 1 && "the trainer's own list has whole sequences");
    const transient t = carve_transient(p, work->scratch);
    const float *x = work->input;
    if (p->has_embedding) {
        embed(p, work, t.x);
        x = t.x;
    }
    for (size_t block = 0; block < block_count(p->slice); block++) {
        const int ends = block + 1 == block_count(p->slice) && !p->has_head;
        float *y = ends ? work->output : t.x;
        pst__block_forward(y, x, &p->shape, &p->slice->layout,
                           block_weights(p, work, block), &t.input, &t.weight,
                           t.scratch);
        x = y;
    }
    if (p->has_head)
        forward_only_head(p, work, x, t.weight.ln_1, t.input.mean_1, t.input.rstd_1,
                          t.logits);
}

static pst_status forward(void *self, pst_work *work, pst_error *err)
{
    const part p = part_of(self, work);
    (void)err;
    if (work->training)
        training_forward(&p, work);
    else
        forward_only(&p, work);
    work->output_bytes = work->output ? p.n * p.shape.c * sizeof(float) : 0;
    return PST_OK;
}

/* ---- backward ----------------------------------------------------------------- */

static void head_backward_input(const part *p, const pst_work *work, const saved *s,
                                const kept *k, float *dx)
{
    const pst__gpt_layout *layout = &p->slice->layout;
    float *dnormed = work->scratch;
    pst__linear_backward_input(p->shape.team, dnormed, s->dlogits,
                               weight_at(work, layout->head), p->n, p->shape.c,
                               (size_t)p->slice->config->vocabulary, PST_OUT_IN, 0);
    pst__kernels()->layernorm_backward(dx, k->dln_f, k->dln_f_bias, NULL, dnormed,
                                       stream_of(p, s, block_count(p->slice)), s->mean,
                                       s->rstd, weight_at(work, layout->ln_f_weight),
                                       p->n, p->shape.c);
}

/* Where block's dx goes: dy of the block below, or out of the slice. */
static float *place_of_dx(const part *p, const pst_work *work, const kept *k,
                          const pst__block_kept *below)
{
    if (below)
        return below->dy;
    return p->has_embedding ? k->dembedded : work->input_grad;
}

static void embedding_backward_input(const part *p, float *dembedded)
{
    pst_dropout dropout = p->shape.dropout;
    dropout.place = DROP_EMBEDDING;
    dropout.element = (uint32_t)(p->shape.sequence.start * p->shape.c);
    if (dropout.rate > 0)
        pst__spread_dropout(p->shape.team, dembedded, dembedded, p->n * p->shape.c,
                            p->shape.t * p->shape.c, &dropout);
}

static pst_status backward_input(void *self, pst_work *work, pst_error *err)
{
    const part p = part_of(self, work);
    const saved s = carve_saved(&p, work->saved_for_input, work->saved_for_weight);
    kept k = carve_kept(&p, work->kept);
    pst__block_kept own, below = {0};
    (void)err;
    carve_block_kept(&p, &k, block_count(p.slice) - 1, work->output_grad, &own);
    if (p.has_head)
        head_backward_input(&p, work, &s, &k, own.dy);
    for (size_t block = block_count(p.slice); block-- > 0;) {
        const pst__block_shape shape = block_shape(&p, block);
        const pst__block_input_part input = input_part_of(&p, &s, block);
        const pst__block_weight_part weight = weight_part_of(&p, &s, block);
        if (block > 0)
            carve_block_kept(&p, &k, block - 1, work->output_grad, &below);
        pst__block_backward_input(place_of_dx(&p, work, &k, block > 0 ? &below : NULL),
                                  block_x(&p, &s, block, work), &shape,
                                  &p.slice->layout, block_weights(&p, work, block),
                                  &input, &weight, &own, work->scratch);
        own = below;
    }
    if (p.has_embedding)
        embedding_backward_input(&p, k.dembedded);
    work->input_grad_bytes = work->input_grad ? p.n * p.shape.c * sizeof(float) : 0;
    return PST_OK;
}

static void head_backward_weight(const part *p, const pst_work *work, const saved *s,
                                 const kept *k)
{
    const pst_kernels *kernels = pst__kernels();
    const pst__gpt_layout *layout = &p->slice->layout;
    pst__linear_backward_weight(p->shape.team, work->gradients + layout->head_gradient,
                                s->normed, s->dlogits, p->n, p->shape.c,
                                (size_t)p->slice->config->vocabulary, PST_OUT_IN,
                                work->scratch);
    kernels->add(work->gradients + layout->ln_f_weight, k->dln_f, p->shape.c);
    if (layout->ln_f_bias != PST_NOWHERE)
        kernels->add(work->gradients + layout->ln_f_bias, k->dln_f_bias, p->shape.c);
}

static pst_status backward_weight(void *self, pst_work *work, pst_error *err)
{
    const part p = part_of(self, work);
    const pst__gpt_layout *layout = &p.slice->layout;
    const saved s = carve_saved(&p, NULL, work->saved_for_weight);
    kept k = carve_kept(&p, work->kept);
    (void)err;
    if (p.has_head)
        head_backward_weight(&p, work, &s, &k);
    for (size_t block = block_count(p.slice); block-- > 0;) {
        const pst__block_weight_part weight = weight_part_of(&p, &s, block);
        pst__block_kept own;
        carve_block_kept(&p, &k, block, work->output_grad, &own);
        pst__block_backward_weight(work->gradients + layout->blocks +
                                       block * layout->block_stride,
                                   &p.shape, layout, &weight, &own, work->scratch);
    }
    if (p.has_embedding)
        pst__embedding_backward_weight(
            work->gradients + layout->wte,
            work->gradients + layout->wpe + p.shape.sequence.start * p.shape.c,
            k.dembedded, p.inputs, p.shape.b, p.shape.t, p.shape.c,
            (size_t)p.slice->config->vocabulary, work->scratch);
    return PST_OK;
}

/* ---- the optimizer -------------------------------------------------------------- */

static pst_status reduce(void *self, pst_work *work, pst_error *err)
{
    const pst__slice *slice = self;
    (void)err;
    pst__adamw_squares(work->team, slice->squares, slice->parameters,
                       slice->parameter_count, work->gradients);
    return PST_OK;
}

static int is_finite(const pst__slice *slice)
{
    const double *square = slice->squares;
    for (size_t i = 0; i < slice->parameter_count; i++)
        if (!slice->parameters[i].tied_copy && !isfinite(*square++))
            return 0;
    return 1;
}

static pst_status not_finite(const pst__slice *slice, pst_error *err)
{
    const double *square = slice->squares;
    size_t i = 0;
    while (slice->parameters[i].tied_copy || isfinite(*square++))
        i++;
    return pst_error_set(err, PST_ENUMERIC,
                         "the gradient of %s is not finite, and the weights are of an "
                         "unfinished list; a lower rate would work, from a checkpoint",
                         slice->parameters[i].tensor.name);
}

static pst_status step(void *self, pst_work *work, pst_error *err)
{
    const pst__slice *slice = self;
    float *m = work->optimizer;
    if (slice->steps_alone && !is_finite(slice))
        return not_finite(slice, err);
    pst__adamw_step(work->team, &slice->adamw[work->update], slice->parameters,
                    slice->parameter_count, work->weights, work->gradients, m,
                    m + slice->layout.weight_floats, slice->layout.weight_floats);
    return PST_OK;
}

/* ---- sizes ---------------------------------------------------------------------- */

static part largest_part(const pst__slice *slice, size_t sequences, size_t parts)
{
    const pst_gpt_config *config = slice->config;
    const size_t t = pst__part_start((size_t)config->context, parts, 1);
    part p = {.slice = slice,
              .shape = shape_of(slice, sequences, t),
              .n = sequences * t,
              .has_embedding = slice->layout.wte != PST_NOWHERE,
              .has_head = slice->layout.head != PST_NOWHERE};
    p.shape.dropout.rate = config->dropout;
    if (parts > 1)
        p.shape.sequence.length = (size_t)config->context;
    return p;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t scratch_floats(const pst__slice *slice, const part *training,
                             const part *evaluation)
{
    const pst_gpt_config *config = slice->config;
    const size_t v = (size_t)config->vocabulary, c = training->shape.c;
    size_t floats = pst__block_scratch(&training->shape);
    floats = larger(floats, carve_transient(evaluation, NULL).used);
    if (training->has_head)
        floats = larger(floats, pst__linear_scratch(c, v, slice->members));
    if (training->has_embedding)
        floats = larger(
            floats, pst__embedding_scratch(training->shape.b, training->shape.t, c, v));
    return floats;
}

/* Could any size below overflow? 64 c bounds a row of all that a block has. */
static int is_too_large(const pst__slice *slice, size_t sequences)
{
    const pst_gpt_config *config = slice->config;
    const double rows = (double)sequences * config->context;
    const double row = 64.0 * config->width * (double)(block_count(slice) + 1) +
                       (double)config->vocabulary + 8.0 * config->heads;
    return rows * row * sizeof(float) > 4e18;
}

pst_status pst__slice_stage(pst__slice *slice, int stage, int stages,
                            size_t train_sequences, size_t train_parts,
                            size_t eval_sequences, pst_stage *out, pst_error *err)
{
    pst__gpt_layout_init(&slice->layout, slice->config, stage, stages);
    if (is_too_large(slice, larger(train_sequences, eval_sequences)))
        return pst_error_set(
            err, PST_EINVAL,
            "microbatches of %zu sequences of this model are larger than "
            "any memory; a smaller batch would work",
            larger(train_sequences, eval_sequences));
    const part training = largest_part(slice, train_sequences, train_parts);
    const part evaluation = largest_part(slice, eval_sequences, 1);
    const saved s = carve_saved(&training, NULL, NULL);
    const size_t blocks = block_count(slice);
    kept k = carve_kept(&training, NULL);
    for (size_t block = blocks; block-- > 0;) {
        pst__block_kept own;
        carve_block_kept(&training, &k, block, NULL, &own);
    }
    const size_t rows = larger(training.n, evaluation.n);
    const size_t stream = rows * training.shape.c * sizeof(float);
    *out = (pst_stage){
        .self = slice,
        .input_bytes = stage > 0 ? stream : 0,
        .output_bytes = stage + 1 < stages ? stream : 0,
        .saved_for_input_bytes =
            (s.input.used + blocks * s.input_stride) * sizeof(float),
        .saved_for_weight_bytes =
            (s.weight.used + blocks * s.weight_stride) * sizeof(float),
        .kept_bytes = k.carve.used * sizeof(float),
        .scratch_bytes = scratch_floats(slice, &training, &evaluation) * sizeof(float),
        .sequence_bytes = 2 * blocks * sequence_stride(&training) * sizeof(float),
        .weight_bytes = slice->layout.weight_floats * sizeof(float),
        .gradient_count = slice->layout.gradient_floats,
        .optimizer_bytes = 2 * slice->layout.weight_floats * sizeof(float),
        .input_held = PST_HELD_TO_BACKWARD_INPUT,
        .output_grad_held = PST_HELD_TO_BACKWARD_WEIGHT,
        .forward = forward,
        .backward_input = backward_input,
        .backward_weight = backward_weight,
        .reduce = reduce,
        .step = step,
    };
    return PST_OK;
}
