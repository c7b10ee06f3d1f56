/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c - rows of actions, and the builder that collects them. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <penstock/schedule.h>

#include "sched/row.h"

enum { MOST_IDS = 65535, FIRST_ROOM = 16 };

/* Idle cells of a row: before action `index` stand `idle` of them, all in all. */
typedef struct idle_mark {
    size_t index;
    size_t idle;
} idle_mark;

typedef struct row {
    pst_action *actions;
    size_t count, room;
    idle_mark *idle; /* ascending; only where a file has idle cells            */
    size_t idle_count, idle_room;
} row;

/* A schedule and its builder are the same thing before and after `finish`. */
struct pst_schedule {
    const pst_env *env; /* NULL, or &env_copy                                  */
    pst_env env_copy;
    char *name;
    char *file;
    int ranks, stages, microbatches, replicas, slices, data_parallel, updates;
    pst_weight_policy weight_policy;
    row *rows;    /* [ranks]                                                   */
    int *rank_of; /* [stages]; -1: none or two                                 */
};

struct pst_schedule_builder {
    pst_schedule *schedule;
};

const char *pst_schedule_name(const pst_schedule *schedule)
{
    return schedule->name;
}

const char *pst_schedule_file(const pst_schedule *schedule)
{
    return schedule->file;
}

int pst_schedule_ranks(const pst_schedule *schedule)
{
    return schedule->ranks;
}

int pst_schedule_stages(const pst_schedule *schedule)
{
    return schedule->stages;
}

int pst_schedule_microbatches(const pst_schedule *schedule)
{
    return schedule->microbatches;
}

int pst_schedule_total_microbatches(const pst_schedule *schedule)
{
    return schedule->microbatches / schedule->slices * schedule->replicas;
}

int pst_schedule_replicas(const pst_schedule *schedule)
{
    return schedule->replicas;
}

int pst_schedule_data_parallel(const pst_schedule *schedule)
{
    return schedule->data_parallel;
}

int pst_schedule_slices(const pst_schedule *schedule)
{
    return schedule->slices;
}

int pst_schedule_updates(const pst_schedule *schedule)
{
    return schedule->updates;
}

pst_weight_policy pst_schedule_weight_policy(const pst_schedule *schedule)
{
    return schedule->weight_policy;
}

int pst_schedule_next_stage(const pst_schedule *schedule, int stage)
{
    return (stage + 1) % (schedule->stages / schedule->replicas) == 0 ? -1 : stage + 1;
}

int pst_schedule_previous_stage(const pst_schedule *schedule, int stage)
{
    return stage % (schedule->stages / schedule->replicas) == 0 ? -1 : stage - 1;
}

int pst_schedule_rank_of(const pst_schedule *schedule, int stage)
{
    return stage >= 0 && stage < schedule->stages ? schedule->rank_of[stage] : -1;
}

const pst_action *pst_schedule_row(const pst_schedule *schedule, int rank,
                                   size_t *count)
{
    *count = schedule->rows[rank].count;
    return schedule->rows[rank].actions;
}

size_t pst_schedule_cell(const pst_schedule *schedule, int rank, size_t index)
{
    const row *r = &schedule->rows[rank];
    size_t idle = 0;
    for (size_t i = 0; i < r->idle_count && r->idle[i].index <= index; i++)
        idle = r->idle[i].idle;
    /* A pair is one cell of a file. */
    size_t seconds = 0;
    for (size_t i = 0; i < index && schedule->file != NULL; i++)
        seconds += r->actions[i].paired;
    return index + 1 + idle - seconds;
}

size_t pst_schedule_action_count(const pst_schedule *schedule)
{
    size_t count = 0;
    for (int rank = 0; rank < schedule->ranks; rank++)
        count += schedule->rows[rank].count;
    return count;
}

void pst_schedule_destroy(pst_schedule *schedule)
{
    if (schedule == NULL)
        return;
    const pst_env copy = schedule->env_copy;
    const pst_env *env = schedule->env != NULL ? &copy : NULL;
    for (int rank = 0; schedule->rows != NULL && rank < schedule->ranks; rank++) {
        pst_release(env, schedule->rows[rank].actions);
        pst_release(env, schedule->rows[rank].idle);
    }
    pst_release(env, schedule->rows);
    pst_release(env, schedule->rank_of);
    pst_release(env, schedule->name);
    pst_release(env, schedule->file);
    pst_release(env, schedule);
}

pst_status pst_schedule_builder_create(const pst_env *env, int ranks, int stages,
                                       int microbatches, pst_schedule_builder **out,
                                       pst_error *err)
{
    if (ranks < 1 || ranks > MOST_IDS)
        return pst_error_set(err, PST_EINVAL, "%d ranks: must be 1 to %d", ranks,
                             MOST_IDS);
    if (stages < 1 || stages > MOST_IDS)
        return pst_error_set(err, PST_EINVAL, "%d stages: must be 1 to %d", stages,
                             MOST_IDS);
    if (microbatches < 1)
        return pst_error_set(err, PST_EINVAL, "%d microbatches: must be at least 1",
                             microbatches);
    pst_schedule_builder *builder = pst_allocate(env, sizeof *builder);
    pst_schedule *schedule = pst_allocate(env, sizeof *schedule);
    if (builder == NULL || schedule == NULL) {
        pst_release(env, schedule);
        pst_release(env, builder);
        return pst_error_no_memory(err, "a schedule", sizeof *schedule);
    }
    if (env != NULL) {
        schedule->env_copy = *env;
        schedule->env = &schedule->env_copy;
    }
    builder->schedule = schedule;
    schedule->ranks = ranks;
    schedule->stages = stages;
    schedule->microbatches = microbatches;
    schedule->replicas = 1;
    schedule->slices = 1;
    schedule->data_parallel = 1;
    schedule->rows = pst_allocate_array(env, (size_t)ranks, sizeof *schedule->rows);
    schedule->rank_of = pst_allocate_array(env, (size_t)stages, sizeof(int));
    if (schedule->rows == NULL || schedule->rank_of == NULL) {
        pst_schedule_builder_destroy(builder);
        return pst_error_no_memory(err, "rows", (size_t)ranks * sizeof(row));
    }
    *out = builder;
    return PST_OK;
}

pst_status pst_schedule_builder_create_like(const pst_env *env,
                                            const pst_schedule *schedule,
                                            pst_schedule_builder **out, pst_error *err)
{
    const pst_status status = pst_schedule_builder_create(
        env, schedule->ranks, schedule->stages, schedule->microbatches, out, err);
    if (status != PST_OK)
        return status;
    (*out)->schedule->replicas = schedule->replicas;
    (*out)->schedule->slices = schedule->slices;
    (*out)->schedule->data_parallel = schedule->data_parallel;
    (*out)->schedule->weight_policy = schedule->weight_policy;
    return PST_OK;
}

/* Room for one more element of `size` bytes; *room counts elements. */
static pst_status make_room(const pst_env *env, void **array, size_t count,
                            size_t *room, size_t size, pst_error *err)
{
    if (count < *room)
        return PST_OK;
    size_t wanted = *room == 0 ? FIRST_ROOM : *room * 2;
    void *larger = wanted <= SIZE_MAX / size
                       ? pst_grow(env, *array, count * size, wanted * size)
                       : NULL;
    if (larger == NULL)
        return pst_error_no_memory(err, "a row", (unsigned long long)wanted * size);
    *array = larger;
    *room = wanted;
    return PST_OK;
}

static pst_status refuse_ids(const pst_schedule *schedule, int rank, pst_action action,
                             pst_error *err)
{
    char text[32];
    if (rank < 0 || rank >= schedule->ranks)
        return pst_error_set(err, PST_ESCHEDULE, "rank %d: there are %d", rank,
                             schedule->ranks);
    const pst_op_description *op = pst_op_describe(action.op);
    if (op == NULL)
        return pst_error_set(err, PST_ESCHEDULE, "operation %d: unknown", action.op);
    pst_action_text(action, text, sizeof text);
    if (action.stage >= schedule->stages)
        return pst_error_set(err, PST_ESCHEDULE, "rank %d: '%s': there are %d stages",
                             rank, text, schedule->stages);
    if (op->has_microbatch && action.microbatch >= (uint32_t)schedule->microbatches)
        return pst_error_set(err, PST_ESCHEDULE,
                             "rank %d: '%s': there are %d microbatches", rank, text,
                             schedule->microbatches);
    return PST_OK;
}

pst_status pst_schedule_builder_append(pst_schedule_builder *builder, int rank,
                                       pst_action action, pst_error *err)
{
    pst_schedule *schedule = builder->schedule;
    pst_status status = refuse_ids(schedule, rank, action, err);
    if (status != PST_OK)
        return status;
    row *r = &schedule->rows[rank];
    void *actions = r->actions;
    status = make_room(schedule->env, &actions, r->count, &r->room, sizeof action, err);
    r->actions = actions;
    if (status == PST_OK)
        r->actions[r->count++] = action;
    return status;
}

pst_status pst_schedule_builder_idle(pst_schedule_builder *builder, int rank,
                                     pst_error *err)
{
    pst_schedule *schedule = builder->schedule;
    if (rank < 0 || rank >= schedule->ranks)
        return pst_error_set(err, PST_ESCHEDULE, "rank %d: there are %d", rank,
                             schedule->ranks);
    row *r = &schedule->rows[rank];
    size_t before = r->idle_count > 0 ? r->idle[r->idle_count - 1].idle : 0;
    if (r->idle_count > 0 && r->idle[r->idle_count - 1].index == r->count) {
        r->idle[r->idle_count - 1].idle++;
        return PST_OK;
    }
    void *idle = r->idle;
    pst_status status = make_room(schedule->env, &idle, r->idle_count, &r->idle_room,
                                  sizeof *r->idle, err);
    r->idle = idle;
    if (status == PST_OK)
        r->idle[r->idle_count++] = (idle_mark){r->count, before + 1};
    return status;
}

/* Which rank computes each stage. */
static void place_stages(pst_schedule *schedule)
{
    enum { NOWHERE = -1, TWO_RANKS = -2 };
    for (int stage = 0; stage < schedule->stages; stage++)
        schedule->rank_of[stage] = NOWHERE;
    for (int rank = 0; rank < schedule->ranks; rank++) {
        const row *r = &schedule->rows[rank];
        for (size_t i = 0; i < r->count; i++) {
            int *place = &schedule->rank_of[r->actions[i].stage];
            if (!pst_op_describe(r->actions[i].op)->computes)
                continue;
            *place = *place == NOWHERE || *place == rank ? rank : TWO_RANKS;
        }
    }
    for (int stage = 0; stage < schedule->stages; stage++)
        if (schedule->rank_of[stage] == TWO_RANKS)
            schedule->rank_of[stage] = NOWHERE;
}

static void count_updates(pst_schedule *schedule)
{
    for (int rank = 0; rank < schedule->ranks; rank++) {
        const row *r = &schedule->rows[rank];
        for (size_t i = 0; i < r->count; i++)
            schedule->updates +=
                r->actions[i].op == PST_OP_STEP && r->actions[i].stage == 0;
    }
}

pst_status pst_schedule_builder_finish(pst_schedule_builder *builder, const char *name,
                                       const char *file, pst_schedule **out,
                                       pst_error *err)
{
    pst_schedule *schedule = builder->schedule;
    schedule->name = pst_copy_text(schedule->env, name);
    if (file != NULL)
        schedule->file = pst_copy_text(schedule->env, file);
    if (schedule->name == NULL || (file != NULL && schedule->file == NULL)) {
        pst_schedule_builder_destroy(builder);
        return pst_error_no_memory(err, "a schedule's name", strlen(name) + 1);
    }
    place_stages(schedule);
    count_updates(schedule);
    builder->schedule = NULL;
    pst_release(schedule->env, builder);
    *out = schedule;
    return PST_OK;
}

pst_status pst_schedule_builder_set_replicas(pst_schedule_builder *builder,
                                             int replicas, pst_error *err)
{
    const int stages = builder->schedule->stages;
    if (replicas < 1 || stages % replicas != 0)
        return pst_error_set(err, PST_EINVAL,
                             "%d replicas of %d stages in all; they must divide them",
                             replicas, stages);
    builder->schedule->replicas = replicas;
    return PST_OK;
}

pst_status pst_schedule_builder_set_slices(pst_schedule_builder *builder, int slices,
                                           pst_error *err)
{
    const int microbatches = builder->schedule->microbatches;
    if (slices < 1 || microbatches % slices != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "%d slices, and %d microbatch ids in the list; the ids count "
            "slices, so they must be a multiple",
            slices, microbatches);
    builder->schedule->slices = slices;
    return PST_OK;
}

pst_status pst_schedule_builder_set_data_parallel(pst_schedule_builder *builder,
                                                  int copies, pst_error *err)
{
    pst_schedule *schedule = builder->schedule;
    if (copies < 1 || schedule->ranks % copies != 0 || schedule->replicas % copies != 0)
        return pst_error_set(err, PST_EINVAL,
                             "%d copies side by side, %d ranks and %d replicas in all; "
                             "the copies must divide both",
                             copies, schedule->ranks, schedule->replicas);
    schedule->data_parallel = copies;
    return PST_OK;
}

void pst_schedule_builder_set_weight_policy(pst_schedule_builder *builder,
                                            pst_weight_policy policy)
{
    builder->schedule->weight_policy = policy;
}

const pst_schedule *pst__schedule_builder_shape(const pst_schedule_builder *builder)
{
    return builder->schedule;
}

const pst_env *pst__schedule_builder_env(const pst_schedule_builder *builder)
{
    return builder->schedule->env;
}

void pst_schedule_builder_destroy(pst_schedule_builder *builder)
{
    if (builder == NULL)
        return;
    const pst_env copy = builder->schedule->env_copy;
    const pst_env *env = builder->schedule->env != NULL ? &copy : NULL;
    pst_schedule_destroy(builder->schedule);
    pst_release(env, builder);
}
