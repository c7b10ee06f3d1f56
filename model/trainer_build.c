/* SPDX-License-Identifier: BSD-3-Clause */
/* trainer_build.c - making a trainer: slices, lists, pipeline, first weights. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <penstock/blas.h>

#include "model/philox.h"
#include "model/sgemm.h"
#include "model/trainer_peers.h"

/* Microbatches of the forward-only list. */
enum { EVAL_MICROBATCHES = 16 };

static pst_status check_shape(const pst_trainer *t, const pst_schedule *schedule,
                              pst_error *err)
{
    const char *name = pst_schedule_name(schedule);
    if (t->parts > t->model.context)
        return pst_error_set(
            err, PST_EINVAL,
            "schedule %s cuts sequences of %d tokens into %d slices; every slice "
            "needs a token: at most %d slices work",
            name, t->model.context, t->parts, t->model.context);
    if (t->stages > t->model.layers)
        return pst_error_set(
            err, PST_EINVAL,
            "%d stages for %d layers; every stage needs a layer: at most "
            "%d stages work",
            t->stages, t->model.layers, t->model.layers);
    if (t->batch_size < 1)
        return pst_error_set(err, PST_EINVAL,
                             "a batch of %d sequences; at least 1 works",
                             t->batch_size);
    if (t->microbatches > t->batch_size)
        return pst_error_set(
            err, PST_EINVAL,
            "%d microbatches for a batch of %d sequences; every "
            "microbatch needs a sequence: at most %d microbatches work",
            t->microbatches, t->batch_size, t->batch_size);
    for (int rank = 0; rank < t->ranks; rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++)
            if (pst_op_describe(row[i].op)->makes_input_grad)
                return PST_OK;
    }
    return pst_error_set(err, PST_EINVAL,
                         "schedule %s has no backward action; training needs them",
                         name);
}

/* With STEPs each stage steps by itself, when it comes to it. */
static pst_status check_asynchronous(const pst_trainer *t, const pst_schedule *schedule,
                                     pst_error *err)
{
    const char *name = pst_schedule_name(schedule);
    if (t->updates == 0)
        return PST_OK;
    if (!t->model.untied)
        return pst_error_set(err, PST_EINVAL,
                             "schedule %s steps each stage by itself, and a tied head "
                             "needs the gradients "
                             "of two; an untied model would work",
                             name);
    if (t->optimizer.clip > 0)
        return pst_error_set(
            err, PST_EINVAL,
            "schedule %s steps each stage by itself, so there is no norm of all "
            "gradients to clip to %g; no clipping (0) would work",
            name, t->optimizer.clip);
    return PST_OK;
}

static pst_status check_shares(const pst_trainer *t, const int *shares, pst_error *err)
{
    for (int i = 0; shares && i < t->copies; i++)
        if (shares[i] < 1)
            return pst_error_set(err, PST_EINVAL,
                                 "copy %d of the pipeline has a share of %d in the "
                                 "batch; at least 1 would work",
                                 i, shares[i]);
    return PST_OK;
}

static size_t count_parameters(const pst_trainer *t)
{
    size_t count = 0;
    for (int stage = 0; stage < t->stages; stage++)
        count += pst_gpt_parameters(&t->model, stage, t->stages, NULL, 0, NULL);
    return count;
}

static pst_status allocate(pst_trainer *t, pst_error *err)
{
    const pst_env *env = &t->env;
    const size_t parameters = count_parameters(t);
    const int units = t->microbatches * t->parts;
    const int most = units > t->eval_microbatches ? units : t->eval_microbatches;
    const size_t tokens = (size_t)t->batch_size * (size_t)t->model.context;
    t->slices =
        pst_allocate_array(env, (size_t)(t->stages * t->replicas), sizeof *t->slices);
    t->parameters = pst_allocate_array(env, parameters, sizeof *t->parameters);
    t->weights = pst_allocate_array(env, parameters, sizeof *t->weights);
    t->gradients = pst_allocate_array(env, parameters, sizeof *t->gradients);
    t->moments = pst_allocate_array(env, 2 * parameters, sizeof *t->moments);
    t->squares =
        pst_allocate_array(env, parameters * (size_t)t->replicas, sizeof *t->squares);
    t->train_first =
        pst_allocate_array(env, (size_t)t->microbatches + 1, sizeof *t->train_first);
    t->eval_first = pst_allocate_array(env, (size_t)t->eval_microbatches + 1,
                                       sizeof *t->eval_first);
    t->share = pst_allocate_array(env, (size_t)t->copies, sizeof *t->share);
    t->loss = pst_allocate_array(env, (size_t)most, sizeof *t->loss);
    t->loss_scale =
        pst_allocate_array(env, (size_t)t->microbatches, sizeof *t->loss_scale);
    t->update_of =
        pst_allocate_array(env, (size_t)t->microbatches, sizeof *t->update_of);
    t->numbers = pst_allocate_array(env, (size_t)t->updates + 1, sizeof *t->numbers);
    if (t->transport) {
        t->process_of_stage = pst_allocate_array(env, (size_t)(t->stages * t->replicas),
                                                 sizeof *t->process_of_stage);
        if (!t->process_of_stage)
            return pst_error_no_memory(err, "a trainer", 0);
    }
    if (t->parts > 1) {
        t->cut_inputs = pst_allocate_array(env, tokens, sizeof *t->cut_inputs);
        t->cut_labels = pst_allocate_array(env, tokens, sizeof *t->cut_labels);
        if (!t->cut_inputs || !t->cut_labels)
            return pst_error_no_memory(err, "a batch", tokens * sizeof *t->cut_inputs);
    }
    if (!t->slices || !t->parameters || !t->weights || !t->gradients || !t->moments ||
        !t->squares || !t->train_first || !t->eval_first || !t->share || !t->loss ||
        !t->loss_scale || !t->update_of || !t->numbers)
        return pst_error_no_memory(err, "a trainer", 0);
    return PST_OK;
}

static int share_of(const int *shares, size_t copy)
{
    return shares ? shares[copy] : 1;
}

/* Which copy has most sequences, the first of equals. */
static size_t largest_share(const pst_trainer *t)
{
    size_t largest = 0;
    for (size_t i = 1; i < (size_t)t->copies; i++)
        if (t->share[i] > t->share[largest])
            largest = i;
    return largest;
}

/* One sequence more for those whose share was rounded off most, the first of equals. */
static void round_shares(pst_trainer *t, const int *shares, size_t whole, size_t left)
{
    const size_t batch = (size_t)t->batch_size;
    for (size_t limit = whole; left > 0;) {
        size_t most = 0;
        for (size_t i = 0; i < (size_t)t->copies; i++) {
            const size_t off = batch * (size_t)share_of(shares, i) % whole;
            if (off < limit && off > most)
                most = off;
        }
        for (size_t i = 0; i < (size_t)t->copies && left > 0; i++)
            if (batch * (size_t)share_of(shares, i) % whole == most) {
                t->share[i]++;
                left--;
            }
        limit = most;
    }
}

/* Sequences of each copy. */
static void share_batch(pst_trainer *t, const int *shares)
{
    const size_t batch = (size_t)t->batch_size;
    const size_t fewest = (size_t)(t->microbatches / t->copies);
    size_t whole = 0, left = batch;
    for (size_t i = 0; i < (size_t)t->copies; i++)
        whole += (size_t)share_of(shares, i);
    for (size_t i = 0; i < (size_t)t->copies; i++) {
        t->share[i] = batch * (size_t)share_of(shares, i) / whole;
        left -= t->share[i];
    }
    round_shares(t, shares, whole, left);
    for (size_t i = 0; i < (size_t)t->copies; i++)
        for (; t->share[i] < fewest; t->share[i]++)
            t->share[largest_share(t)]--;
}

/* Larger microbatches of a copy first. */
static void cut_batch(pst_trainer *t)
{
    const size_t per_copy = (size_t)(t->microbatches / t->copies);
    size_t *next = t->train_first;
    for (size_t copy = 0; copy < (size_t)t->copies; copy++)
        for (size_t i = 0; i < per_copy; i++, next++) {
            const size_t count =
                t->share[copy] / per_copy + (i < t->share[copy] % per_copy);
            next[1] = next[0] + count;
            t->largest = count > t->largest ? count : t->largest;
        }
}

/* By the STEPs of stage 0, which are those of all. */
static void assign_updates(pst_trainer *t, const pst_schedule *schedule)
{
    size_t count;
    int next = 0, update = 0;
    const pst_action *row =
        pst_schedule_row(schedule, pst_schedule_rank_of(schedule, 0), &count);
    for (size_t i = 0; i < count && t->updates > 0; i++) {
        if (row[i].op != PST_OP_STEP || row[i].stage != 0)
            continue;
        while (next < t->microbatches && next <= (int)row[i].microbatch)
            t->update_of[next++] = update;
        update++;
    }
}

/* The further replicas are as the first, with numbers of their own for the
 * norm. */
static void copy_model(pst_trainer *t, pst_stage *stages)
{
    for (int i = t->stages; i < t->stages * t->replicas; i++) {
        pst__slice *slice = &t->slices[i];
        *slice = t->slices[i % t->stages];
        slice->replica = i / t->stages;
        slice->squares += (size_t)slice->replica * t->tensor_count;
        stages[i] = stages[i % t->stages];
        stages[i].self = slice;
    }
}

/* Fill slices and the pipeline's table of stages. */
static pst_status cut_model(pst_trainer *t, pst_stage *stages, pst_error *err)
{
    pst_parameter *next = t->parameters;
    const size_t train_sequences = t->largest;
    const size_t capacity = count_parameters(t);
    for (int stage = 0; stage < t->stages; stage++) {
        const size_t room = capacity - (size_t)(next - t->parameters);
        pst__slice *slice = &t->slices[stage];
        *slice = (pst__slice){.config = &t->model,
                              .batch = &t->batch,
                              .parameters = next,
                              .adamw = t->numbers,
                              .steps_alone = t->updates > 0,
                              .members = (size_t)t->team,
                              .squares = &t->squares[t->tensor_count]};
        slice->parameter_count =
            pst_gpt_parameters(&t->model, stage, t->stages, next, room, NULL);
        for (size_t i = 0; i < slice->parameter_count; i++)
            t->tensor_count += !next[i].tied_copy;
        next += slice->parameter_count;
        const pst_status status =
            pst__slice_stage(slice, stage, t->stages, train_sequences, (size_t)t->parts,
                             (size_t)t->eval_microbatch, &stages[stage], err);
        if (status != PST_OK)
            return status;
    }
    copy_model(t, stages);
    return PST_OK;
}

/* Name the first microbatch and the first tensor that are not finite. */
static pst_status not_finite(const pst_trainer *t, int64_t iteration, pst_error *err)
{
    char loss[64] = "";
    int bad = 0;
    while (bad < t->microbatches && isfinite(t->loss[bad]))
        bad++;
    if (bad < t->microbatches)
        snprintf(loss, sizeof loss, "the loss of microbatch %d", bad);
    for (size_t i = 0; i < t->tensor_count; i++)
        if (!isfinite(t->squares[i]))
            return pst_error_set(
                err, PST_ENUMERIC,
                "step %lld: %s%sthe gradient of %s %s not finite; no weight "
                "was changed. A lower rate, or clipping, would work",
                (long long)iteration + 1, loss, *loss ? " and " : "",
                t->weights[i].name, *loss ? "are" : "is");
    return pst_error_set(err, PST_ENUMERIC,
                         "step %lld: %s is not finite; no weight was changed. A lower "
                         "rate, or clipping, would work",
                         (long long)iteration + 1,
                         *loss ? loss : "the sum of all losses or of all gradients");
}

/* Between `reduce` and `step` of all stages: the global norm, and what clips it. */
static pst_status combine(void *user, int64_t iteration, int *step, pst_error *err)
{
    pst_trainer *t = user;
    double sum = 0, loss = 0;
    const pst_status status =
        pst__trainer_share_numbers(t, t->microbatches * t->parts, err);
    if (status != PST_OK)
        return status;
    for (size_t i = 0; i < t->tensor_count; i++)
        sum += t->squares[i];
    for (int i = 0; i < t->microbatches * t->parts; i++)
        loss += t->loss[i];
    if (!isfinite(sum) || !isfinite(loss))
        return not_finite(t, iteration, err);
    t->norm = sqrt(sum);
    t->numbers[0].clip = (float)pst__adamw_clip(&t->optimizer, t->norm);
    *step = !t->only_gradient;
    return PST_OK;
}

/* Every stage's forwards of all microbatches, one stage of a rank after the
 * other; the replicas side by side. */
static pst_status forward_list(pst_trainer *t, const pst_schedule *schedule,
                               pst_schedule **out, pst_error *err)
{
    pst_schedule_builder *builder;
    const int stages = pst_schedule_stages(schedule);
    const int per_replica = t->eval_microbatches / t->replicas;
    pst_status status = pst_schedule_builder_create(&t->env, t->ranks, stages,
                                                    per_replica, &builder, err);
    if (status != PST_OK)
        return status;
    status = pst_schedule_builder_set_replicas(builder, t->replicas, err);
    for (int i = 0; i < t->stages * per_replica; i++)
        for (int replica = 0; replica < t->replicas && status == PST_OK; replica++) {
            const int stage = replica * t->stages + i / per_replica;
            const pst_action action = {.op = PST_OP_FORWARD,
                                       .stage = (uint16_t)stage,
                                       .microbatch = (uint32_t)(i % per_replica)};
            status = pst_schedule_builder_append(
                builder, pst_schedule_rank_of(schedule, stage), action, err);
        }
    if (status != PST_OK) {
        pst_schedule_builder_destroy(builder);
        return status;
    }
    return pst_schedule_builder_finish(builder, "forward only", NULL, out, err);
}

static pst_status load_lists(pst_trainer *t, const pst_schedule *schedule,
                             pst_error *err)
{
    pst_schedule *forward;
    pst_status status =
        pst_pipeline_load(t->pipeline, schedule, &t->train_program, err);
    if (status != PST_OK)
        return status;
    status = forward_list(t, schedule, &forward, err);
    if (status != PST_OK)
        return status;
    status = pst_pipeline_load(t->pipeline, forward, &t->eval_program, err);
    pst_schedule_destroy(forward);
    return status;
}

static pst_tensor renamed(const pst_tensor *tensor, const char *prefix, float *data)
{
    pst_tensor own = *tensor;
    snprintf(own.name, sizeof own.name, "%s%.80s", prefix, tensor->name);
    own.data = data;
    return own;
}

/* Where the parameter stands; NULL: in another process. */
static float *at(float *memory, const pst_parameter *parameter)
{
    return memory ? memory + parameter->offset : NULL;
}

/* The lists of tensors, pointing into the pipeline's memory. */
static void list_tensors(pst_trainer *t)
{
    size_t count = 0;
    for (int stage = 0; stage < t->stages; stage++) {
        const pst__slice *slice = &t->slices[stage];
        float *weights = pst_pipeline_weights(t->pipeline, stage);
        float *gradients = pst_pipeline_gradients(t->pipeline, stage);
        float *m = pst_pipeline_optimizer(t->pipeline, stage);
        float *v = m ? m + slice->layout.weight_floats : NULL;
        for (size_t i = 0; i < slice->parameter_count; i++) {
            const pst_parameter *p = &slice->parameters[i];
            if (p->tied_copy)
                continue;
            t->weights[count] = renamed(&p->tensor, "", at(weights, p));
            t->gradients[count] = renamed(&p->tensor, "", at(gradients, p));
            t->moments[2 * count] = renamed(&p->tensor, "m.", at(m, p));
            t->moments[2 * count + 1] = renamed(&p->tensor, "v.", at(v, p));
            count++;
        }
    }
}

pst_status pst__trainer_initialize(pst_trainer *trainer, pst_error *err)
{
    for (size_t i = 0; i < trainer->tensor_count; i++) {
        const pst_tensor *tensor = &trainer->weights[i];
        const pst__gpt_initial initial = pst__gpt_initial_of(&trainer->model, tensor);
        if (!tensor->data)
            continue;
        if (initial.deviation > 0)
            pst__philox_normal(trainer->seed, (uint32_t)i, initial.deviation,
                               tensor->data, tensor->count);
        else
            for (size_t k = 0; k < tensor->count; k++)
                tensor->data[k] = initial.constant;
    }
    return pst_trainer_refresh(trainer, err);
}

/* What list_ties() fills. */
typedef struct tie_list {
    pst_tie *ties;           /* at most stages + 3                             */
    pst_tie_member *members; /* at most (stages + 4) replicas                  */
    int count;
    size_t member_count;
} tie_list;

static void begin_tie(tie_list *list, size_t floats)
{
    list->ties[list->count++] =
        (pst_tie){.members = &list->members[list->member_count], .count = floats};
}

static void add_member(tie_list *list, int stage, size_t offset)
{
    list->members[list->member_count++] = (pst_tie_member){stage, offset};
    list->ties[list->count - 1].member_count++;
}

/* The same gradients of `stage`, first .. end - 1, in all replicas. */
static void tie_replicas(const pst_trainer *t, tie_list *list, int stage, size_t first,
                         size_t end)
{
    if (first == end || t->replicas == 1)
        return;
    begin_tie(list, end - first);
    for (int replica = 0; replica < t->replicas; replica++)
        add_member(list, replica * t->stages + stage, first);
}

/* Each gradient is in at most one sum, which goes by replicas: of a tied wte first that
 * of the embedding, then that of the head. */
static void list_ties(const pst_trainer *t, const pst_stage *stages, tie_list *list)
{
    const int last = t->stages - 1;
    const size_t tied = (size_t)t->model.vocabulary * (size_t)t->model.width;
    const size_t wte = t->slices[0].layout.wte;
    const size_t head = t->slices[last].layout.head_gradient;
    if (!t->model.untied) {
        begin_tie(list, tied);
        for (int replica = 0; replica < t->replicas; replica++) {
            add_member(list, replica * t->stages, wte);
            add_member(list, replica * t->stages + last, head);
        }
    }
    for (int stage = 0; stage < t->stages; stage++) {
        size_t next = 0;
        if (!t->model.untied && stage == 0) {
            tie_replicas(t, list, stage, next, wte);
            next = wte + tied;
        }
        if (!t->model.untied && stage == last) {
            tie_replicas(t, list, stage, next, head);
            next = head + tied;
        }
        tie_replicas(t, list, stage, next, stages[stage].gradient_count);
    }
}

static void warm_worker(void *zeros, int rank)
{
    (void)rank;
    pst__sgemm_warm(zeros);
}

static pst_status make_pipeline(pst_trainer *t, const pst_trainer_options *options,
                                const pst_stage *stages, const tie_list *list,
                                int *rank_of_stage, pst_error *err)
{
    const int all = t->stages * t->replicas;
    for (int stage = 0; stage < all; stage++)
        rank_of_stage[stage] = pst_schedule_rank_of(options->schedule, stage);
    if (t->transport)
        for (int stage = 0; stage < all; stage++)
            t->process_of_stage[stage] =
                options->pipeline.process_of_rank[rank_of_stage[stage]];
    pst_pipeline_options own = options->pipeline;
    own.ties = list->ties;
    own.tie_count = list->count;
    own.combine = combine;
    own.combine_user = t;
    own.replicas = t->replicas;
    own.team = t->team;
    float *zeros = pst_allocate_array(&t->env, PST_SGEMM_WARM, sizeof *zeros);
    if (zeros == NULL)
        return pst_error_no_memory(err, "a trainer", PST_SGEMM_WARM * sizeof *zeros);
    own.worker_start = warm_worker;
    own.worker_start_user = zeros;
    const pst_status status = pst_pipeline_create(&t->env, stages, all, rank_of_stage,
                                                  t->ranks, &own, &t->pipeline, err);
    pst_release(&t->env, zeros);
    return status;
}

static pst_status build_pipeline(pst_trainer *t, const pst_trainer_options *options,
                                 pst_error *err)
{
    const size_t all = (size_t)(t->stages * t->replicas);
    pst_stage *stages = pst_allocate_array(&t->env, all, sizeof *stages);
    tie_list list = {
        .ties = pst_allocate_array(&t->env, (size_t)t->stages + 3, sizeof *list.ties),
        .members = pst_allocate_array(&t->env, all + 4 * (size_t)t->replicas,
                                      sizeof *list.members)};
    int *rank_of_stage = pst_allocate_array(&t->env, all, sizeof *rank_of_stage);
    pst_status status = stages && list.ties && list.members && rank_of_stage
                            ? cut_model(t, stages, err)
                            : pst_error_no_memory(err, "a trainer", 0);
    if (status == PST_OK && options->decorate)
        status = options->decorate(options->decorate_user, stages, (int)all, err);
    if (status == PST_OK) {
        list_ties(t, stages, &list);
        status = make_pipeline(t, options, stages, &list, rank_of_stage, err);
    }
    pst_release(&t->env, rank_of_stage);
    pst_release(&t->env, list.members);
    pst_release(&t->env, list.ties);
    pst_release(&t->env, stages);
    return status;
}

/* As many cores a rank as there are, unless the caller says how many; on a machine that
 * is only described no more than this one has. */
static pst_status choose_team(pst_trainer *t, const pst_pipeline_options *options,
                              pst_error *err)
{
    t->team = options->team;
    if (t->team != 0)
        return PST_OK;
    const pst_status status =
        pst_pipeline_team(&t->env, t->ranks, options, &t->team, err);
    /* Of several processes each has its own budget, which pst_pipeline_team() knows. */
    const int most = options->transport ? t->team : pst_cpu_budget() / t->ranks;
    if (t->team > most)
        t->team = most > 1 ? most : 1;
    return status;
}

static pst_status build(pst_trainer *t, const pst_trainer_options *options,
                        pst_error *err)
{
    pst_status status;
    if ((status = pst_gpt_config_complete(&t->model, err)) != PST_OK ||
        (status = pst__adamw_complete(&t->optimizer, err)) != PST_OK ||
        (status = check_shape(t, options->schedule, err)) != PST_OK ||
        (status = check_asynchronous(t, options->schedule, err)) != PST_OK ||
        (status = check_shares(t, options->shares, err)) != PST_OK ||
        (status = choose_team(t, &options->pipeline, err)) != PST_OK ||
        (status = pst_blas_check(&t->env, t->ranks * t->team, err)) != PST_OK)
        return status;
    t->blas = pst_blas_acquire() + 1;
    /* A multiple of the replicas, which share them. */
    t->eval_microbatches =
        (EVAL_MICROBATCHES + t->replicas - 1) / t->replicas * t->replicas;
    if ((status = allocate(t, err)) != PST_OK)
        return status;
    share_batch(t, options->shares);
    cut_batch(t);
    if (t->eval_microbatch == 0)
        t->eval_microbatch = (int)t->largest;
    assign_updates(t, options->schedule);
    if ((status = build_pipeline(t, options, err)) != PST_OK ||
        (status = load_lists(t, options->schedule, err)) != PST_OK)
        return status;
    list_tensors(t);
    if ((status = pst__trainer_prepare_peers(t, err)) != PST_OK)
        return status;
    return pst__trainer_initialize(t, err);
}

pst_status pst_trainer_create(const pst_env *env, const pst_trainer_options *options,
                              pst_trainer **out, pst_error *err)
{
    pst_trainer *t = pst_allocate(env, sizeof *t);
    if (!t)
        return pst_error_no_memory(err, "a trainer", sizeof *t);
    if (env)
        t->env = *env;
    t->model = options->model;
    t->optimizer = options->optimizer;
    t->seed = options->seed;
    t->transport = options->pipeline.transport;
    t->batch_size = options->batch;
    t->eval_microbatch = options->eval_microbatch;
    t->replicas = pst_schedule_replicas(options->schedule);
    t->copies = pst_schedule_data_parallel(options->schedule);
    t->stages = pst_schedule_stages(options->schedule) / t->replicas;
    t->ranks = pst_schedule_ranks(options->schedule);
    t->microbatches = pst_schedule_total_microbatches(options->schedule);
    t->parts = pst_schedule_slices(options->schedule);
    t->updates = pst_schedule_updates(options->schedule);
    t->weight_policy = pst_schedule_weight_policy(options->schedule);
    const pst_status status = build(t, options, err);
    if (status == PST_OK)
        *out = t;
    else
        pst_trainer_destroy(t);
    return status;
}

void pst_trainer_destroy(pst_trainer *trainer)
{
    if (!trainer)
        return;
    const pst_env env = trainer->env;
    pst_checkpoint_writer_destroy(trainer->writer);
    size_t bytes;
    const int left =
        trainer->pipeline ? pst_pipeline_abandoned(trainer->pipeline, &bytes) : 0;
    pst_pipeline_destroy(trainer->pipeline);
    if (left > 0)
        return; /* a callback that may still return reads slices and batch */
    if (trainer->blas > 0)
        pst_blas_release(trainer->blas - 1);
    pst__trainer_release_peers(trainer);
    pst_release(&env, trainer->slices);
    pst_release(&env, trainer->parameters);
    pst_release(&env, trainer->weights);
    pst_release(&env, trainer->gradients);
    pst_release(&env, trainer->moments);
    pst_release(&env, trainer->squares);
    pst_release(&env, trainer->train_first);
    pst_release(&env, trainer->eval_first);
    pst_release(&env, trainer->share);
    pst_release(&env, trainer->loss);
    pst_release(&env, trainer->loss_scale);
    pst_release(&env, trainer->update_of);
    pst_release(&env, trainer->numbers);
    pst_release(&env, trainer->cut_inputs);
    pst_release(&env, trainer->cut_labels);
    pst_release(&env, trainer);
}
