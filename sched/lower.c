/* SPDX-License-Identifier: BSD-3-Clause */
/* lower.c - where the SEND and RECV cells go. */
#include <penstock/lower.h>

#include "sched/deadlock.h"
#include "sched/lower_in_time.h"

typedef struct lowering {
    const pst_schedule *schedule;
    pst_schedule_builder *builder;
    pst_action held[2]; /* messages of a pair leave after both of its parts     */
    int held_count;
} lowering;

static int has_messages(const pst_schedule *schedule)
{
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count; i++)
            if (!pst_op_describe(row[i].op)->runs)
                return 1;
    }
    return 0;
}

static pst_status begin(const pst_env *env, lowering *l, pst_error *err)
{
    const pst_schedule *schedule = l->schedule;
    if (has_messages(schedule))
        return pst_error_set(
            err, PST_ESCHEDULE,
            "%s: has SEND, RECV or FSDP cells already; messages can be "
            "added to a list without them only",
            pst_schedule_name(schedule));
    return pst_schedule_builder_create_like(env, schedule, &l->builder, err);
}

static pst_status end(lowering *l, pst_status status, pst_schedule **out,
                      pst_error *err)
{
    if (status == PST_OK)
        return pst_schedule_builder_finish(l->builder, pst_schedule_name(l->schedule),
                                           NULL, out, err);
    pst_schedule_builder_destroy(l->builder);
    return status;
}

/* The send that `action` on `rank` brings about; false where its user is here too. */
static int send_of(const pst_schedule *schedule, int rank, pst_action action,
                   pst_action *send)
{
    const pst_op_description *op = pst_op_describe(action.op);
    const int user = op->makes_output
                         ? pst_schedule_next_stage(schedule, action.stage)
                         : pst_schedule_previous_stage(schedule, action.stage);
    if (!op->makes_output && !op->makes_input_grad)
        return 0;
    if (user < 0 || pst_schedule_rank_of(schedule, user) == rank)
        return 0;
    *send = action;
    send->paired = 0;
    send->op = op->makes_output ? PST_OP_SEND_FORWARD : PST_OP_SEND_BACKWARD;
    return 1;
}

static pst_action receive_of(pst_action send)
{
    int forward = send.op == PST_OP_SEND_FORWARD;
    send.op = forward ? PST_OP_RECEIVE_FORWARD : PST_OP_RECEIVE_BACKWARD;
    send.stage = (uint16_t)(forward ? send.stage + 1 : send.stage - 1);
    return send;
}

static pst_status append_message(lowering *l, int rank, pst_action send, pst_error *err)
{
    pst_action receive = receive_of(send);
    pst_status status = pst_schedule_builder_append(l->builder, rank, send, err);
    if (status != PST_OK)
        return status;
    return pst_schedule_builder_append(
        l->builder, pst_schedule_rank_of(l->schedule, receive.stage), receive, err);
}

static pst_status visit(void *user, int rank, pst_action action, pst_error *err)
{
    lowering *l = user;
    pst_status status = pst_schedule_builder_append(l->builder, rank, action, err);
    pst_action send;
    if (send_of(l->schedule, rank, action, &send))
        l->held[l->held_count++] = send;
    if (action.paired)
        return status;
    for (int k = 0; k < l->held_count && status == PST_OK; k++)
        status = append_message(l, rank, l->held[k], err);
    l->held_count = 0;
    return status;
}

pst_status pst_schedule_lower(const pst_env *env, const pst_schedule *schedule,
                              pst_schedule **out, pst_error *err)
{
    lowering l = {.schedule = schedule};
    pst_status status = begin(env, &l, err);
    if (status != PST_OK)
        return status;
    status = pst__topological_order(env, schedule, visit, &l, err);
    return end(&l, status, out, err);
}

/* The receive that `action` needs before it; false where its maker is here too. */
static int needs_message(const pst_schedule *schedule, int rank, pst_action action,
                         pst_action *receive)
{
    const pst_op_description *op = pst_op_describe(action.op);
    const int maker = op->makes_output
                          ? pst_schedule_previous_stage(schedule, action.stage)
                          : pst_schedule_next_stage(schedule, action.stage);
    if (!op->makes_output && !op->makes_input_grad)
        return 0;
    if (maker < 0 || pst_schedule_rank_of(schedule, maker) == rank)
        return 0;
    *receive = action;
    receive->paired = 0;
    receive->op = op->makes_output ? PST_OP_RECEIVE_FORWARD : PST_OP_RECEIVE_BACKWARD;
    return 1;
}

static pst_status lower_row_in_time(lowering *l, int rank, pst_error *err)
{
    size_t count;
    const pst_action *row = pst_schedule_row(l->schedule, rank, &count);
    pst_action message;
    pst_status status = PST_OK;
    for (size_t i = 0; i < count && status == PST_OK; i++) {
        if (needs_message(l->schedule, rank, row[i], &message))
            status = pst_schedule_builder_append(l->builder, rank, message, err);
        pst_action alone = row[i];
        alone.paired = 0;
        if (status == PST_OK)
            status = pst_schedule_builder_append(l->builder, rank, alone, err);
        if (status == PST_OK && send_of(l->schedule, rank, row[i], &message))
            status = pst_schedule_builder_append(l->builder, rank, message, err);
    }
    return status;
}

pst_status pst__lower_in_time(const pst_env *env, const pst_schedule *schedule,
                              pst_schedule **out, pst_error *err)
{
    lowering l = {.schedule = schedule};
    pst_status status = begin(env, &l, err);
    if (status != PST_OK)
        return status;
    for (int rank = 0; rank < pst_schedule_ranks(schedule) && status == PST_OK; rank++)
        status = lower_row_in_time(&l, rank, err);
    return end(&l, status, out, err);
}

/* Append what one place between two actions (or pairs) holds: sends of what was made
 * and receives of what is needed next. */
static pst_status append_exchange(lowering *l, int rank, int receives_first,
                                  const pst_action *needed, int needed_count,
                                  pst_error *err)
{
    pst_status status = PST_OK;
    for (int half = 0; half < 2; half++) {
        const int receives = half == 0 ? receives_first : !receives_first;
        const pst_action *cells = receives ? needed : l->held;
        const int count = receives ? needed_count : l->held_count;
        for (int k = 0; k < count && status == PST_OK; k++)
            status = pst_schedule_builder_append(l->builder, rank, cells[k], err);
    }
    l->held_count = 0;
    return status;
}

static pst_status lower_row_between(lowering *l, int rank, int receives_first,
                                    pst_error *err)
{
    size_t count;
    const pst_action *row = pst_schedule_row(l->schedule, rank, &count);
    pst_status status = PST_OK;
    for (size_t i = 0; i < count && status == PST_OK;) {
        const size_t length = row[i].paired && i + 1 < count ? 2 : 1;
        pst_action needed[2], sent[2];
        int needed_count = 0, sent_count = 0;
        for (size_t k = i; k < i + length; k++) {
            needed_count +=
                needs_message(l->schedule, rank, row[k], &needed[needed_count]);
            sent_count += send_of(l->schedule, rank, row[k], &sent[sent_count]);
        }
        status = append_exchange(l, rank, receives_first, needed, needed_count, err);
        for (size_t k = i; k < i + length && status == PST_OK; k++)
            status = pst_schedule_builder_append(l->builder, rank, row[k], err);
        for (int k = 0; k < sent_count; k++)
            l->held[l->held_count++] = sent[k];
        i += length;
    }
    return status == PST_OK ? append_exchange(l, rank, 0, NULL, 0, err) : status;
}

pst_status pst_schedule_lower_as(const pst_env *env, const pst_schedule *schedule,
                                 pst_lowering how, pst_schedule **out, pst_error *err)
{
    if (how == PST_LOWER_EARLY)
        return pst_schedule_lower(env, schedule, out, err);
    lowering l = {.schedule = schedule};
    pst_schedule *lowered;
    pst_status status = begin(env, &l, err);
    if (status != PST_OK)
        return status;
    for (int rank = 0; rank < pst_schedule_ranks(schedule) && status == PST_OK; rank++)
        status =
            lower_row_between(&l, rank, how == PST_LOWER_PARITY && rank % 2 == 1, err);
    status = end(&l, status, &lowered, err);
    if (status != PST_OK)
        return status;
    status = pst__deadlock_check(
        env, lowered,
        how == PST_LOWER_PARITY ? PST__SENDS_RENDEZVOUS : PST__SENDS_BUFFERED, err);
    if (status == PST_OK)
        *out = lowered;
    else
        pst_schedule_destroy(lowered);
    return status;
}

pst_status pst_schedule_compute_only(const pst_env *env, const pst_schedule *schedule,
                                     pst_schedule **out, pst_error *err)
{
    lowering l = {.schedule = schedule};
    pst_status status =
        pst_schedule_builder_create_like(env, schedule, &l.builder, err);
    if (status != PST_OK)
        return status;
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        for (size_t i = 0; i < count && status == PST_OK; i++)
            if (pst_op_describe(row[i].op)->runs)
                status = pst_schedule_builder_append(l.builder, rank, row[i], err);
    }
    return end(&l, status, out, err);
}
