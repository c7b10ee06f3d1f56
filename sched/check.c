/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - is an action list one that can be run? */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <penstock/check.h>

#include "sched/check_state.h"
#include "sched/deadlock.h"

#define ANY_BACKWARD                                                                   \
    (PST__SEEN(PST_OP_BACKWARD) | PST__SEEN(PST_OP_BACKWARD_INPUT) |                   \
     PST__SEEN(PST_OP_BACKWARD_WEIGHT))

pst_status pst__check_fault(const pst__checking *c, int rank, size_t index,
                            pst_error *err, const char *format, ...)
{
    char reason[512], action[32];
    size_t count;
    const pst_action *row = pst_schedule_row(c->schedule, rank, &count);
    const char *file = pst_schedule_file(c->schedule);
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    pst_action_text(row[index], action, sizeof action);
    return pst_error_set_at(err, PST_ESCHEDULE, file, file != NULL ? rank + 1 : 0,
                            "rank %d, cell %zu (%s): %s", rank,
                            pst_schedule_cell(c->schedule, rank, index), action,
                            reason);
}

/* Where `stage` is computed for the first time by another rank than `rank`. */
static pst_status find_second_rank(const pst__checking *c, int stage, pst_error *err)
{
    int first_rank = -1;
    for (int rank = 0; rank < pst_schedule_ranks(c->schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(c->schedule, rank, &count);
        for (size_t i = 0; i < count; i++) {
            if (row[i].stage != stage || !pst_op_describe(row[i].op)->computes)
                continue;
            if (first_rank >= 0 && first_rank != rank)
                return pst__check_fault(
                    c, rank, i, err,
                    "stage %d stands on rank %d already; a stage has one rank", stage,
                    first_rank);
            first_rank = rank;
        }
    }
    return pst_error_set(err, PST_ESCHEDULE,
                         "%s: stage %d is on no rank; each of the %d stages needs one",
                         pst_schedule_name(c->schedule), stage, c->stages);
}

static pst_status check_placement(const pst__checking *c, pst_error *err)
{
    const int copies = pst_schedule_data_parallel(c->schedule);
    for (int stage = 0; stage < c->stages; stage++) {
        const int rank = pst_schedule_rank_of(c->schedule, stage);
        const int copy = stage / (c->stages / copies);
        if (rank < 0)
            return find_second_rank(c, stage, err);
        if (rank % copies != copy)
            return pst_error_set(err, PST_ESCHEDULE,
                                 "%s: stage %d of copy %d stands on rank %d, which is "
                                 "of copy %d; of %d copies side by side, rank r is of "
                                 "copy r mod %d",
                                 pst_schedule_name(c->schedule), stage, copy, rank,
                                 rank % copies, copies, copies);
    }
    return PST_OK;
}

/* What F saved leaves after F, and is back before the backward. */
static pst_status check_move(const pst__checking *c, int rank, size_t i, pst_action a,
                             unsigned before, pst_error *err)
{
    const int evicts = a.op == PST_OP_EVICT;
    const int first = evicts ? PST_OP_FORWARD : PST_OP_EVICT;
    if (pst_schedule_partner(c->schedule, rank) < 0)
        return pst__check_fault(
            c, rank, i, err, "rank %d, in the middle of %d, has no partner to evict to",
            rank,
            pst_schedule_ranks(c->schedule) / pst_schedule_data_parallel(c->schedule));
    if ((before & PST__SEEN(first)) == 0)
        return pst__check_fault(c, rank, i, err, "comes before %u%s%" PRIu32, a.stage,
                                pst_op_describe(first)->csv, a.microbatch);
    if ((before & ANY_BACKWARD) != 0)
        return pst__check_fault(c, rank, i, err,
                                "comes after the backward, which frees what it %s",
                                evicts ? "evicts" : "loads");
    return PST_OK;
}

/* What must have been seen before an operation, in words for when it was not. */
static pst_status check_order(const pst__checking *c, int rank, size_t i, pst_action a,
                              unsigned before, pst_error *err)
{
    if ((before & PST__SEEN(a.op)) != 0)
        return pst__check_fault(c, rank, i, err, "stands here a second time");
    switch (a.op) {
    case PST_OP_BACKWARD:
    case PST_OP_BACKWARD_INPUT:
        if ((before & PST__SEEN(PST_OP_FORWARD)) == 0)
            return pst__check_fault(c, rank, i, err, "comes before %uF%" PRIu32,
                                    a.stage, a.microbatch);
        if ((before & PST__SEEN(PST_OP_EVICT)) != 0 &&
            (before & PST__SEEN(PST_OP_LOAD)) == 0)
            return pst__check_fault(c, rank, i, err, "comes before %uLOAD%" PRIu32,
                                    a.stage, a.microbatch);
        break;
    case PST_OP_EVICT:
    case PST_OP_LOAD:
        return check_move(c, rank, i, a, before, err);
    case PST_OP_BACKWARD_WEIGHT:
        if ((before & PST__SEEN(PST_OP_BACKWARD)) == 0 &&
            (before & PST__SEEN(PST_OP_BACKWARD_INPUT)) == 0)
            return pst__check_fault(c, rank, i, err, "comes before %uI%" PRIu32,
                                    a.stage, a.microbatch);
        break;
    default:
        break;
    }
    unsigned with = before | PST__SEEN(a.op);
    if ((with & PST__SEEN(PST_OP_BACKWARD)) != 0 &&
        (with &
         (PST__SEEN(PST_OP_BACKWARD_INPUT) | PST__SEEN(PST_OP_BACKWARD_WEIGHT))) != 0)
        return pst__check_fault(
            c, rank, i, err,
            "stage %u has both a full backward (B) and a split one (I, W) of "
            "microbatch %" PRIu32,
            a.stage, a.microbatch);
    return PST_OK;
}

/*
 * Attention looks back: a slice goes forward after the one before it, whose keys and
 * values it reads, and back before it, since it adds to their gradients.
 */
static pst_status check_slices(const pst__checking *c, int rank, size_t i, pst_action a,
                               pst_error *err)
{
    const uint32_t slices = (uint32_t)pst_schedule_slices(c->schedule);
    const uint32_t slice = a.microbatch % slices;
    const pst_op_description *op = pst_op_describe(a.op);
    const unsigned back = PST__SEEN(PST_OP_BACKWARD) | PST__SEEN(PST_OP_BACKWARD_INPUT);
    if (op->makes_output && slice > 0 &&
        (*pst__check_seen(c, a.stage, a.microbatch - 1) & PST__SEEN(PST_OP_FORWARD)) ==
            0)
        return pst__check_fault(
            c, rank, i, err,
            "comes before %uF%" PRIu32
            "; the slices of a microbatch go forward in their order",
            a.stage, a.microbatch - 1);
    if (op->makes_input_grad && slice + 1 < slices &&
        (*pst__check_seen(c, a.stage, a.microbatch + 1) & back) == 0)
        return pst__check_fault(
            c, rank, i, err,
            "comes before %uB%" PRIu32
            "; the slices of a microbatch go back from the last to the first",
            a.stage, a.microbatch + 1);
    return PST_OK;
}

/* A pair is a forward and a backward of different microbatches or stages. */
static pst_status check_pair(const pst__checking *c, int rank, size_t i,
                             const pst_action *row, size_t count, pst_error *err)
{
    if (!row[i].paired)
        return PST_OK;
    if (i + 1 == count || row[i + 1].paired)
        return pst__check_fault(c, rank, i, err, "is paired with no second action");
    const pst_op_description *a = pst_op_describe(row[i].op);
    const pst_op_description *b = pst_op_describe(row[i + 1].op);
    if (!(a->makes_output && b->makes_input_grad) &&
        !(a->makes_input_grad && b->makes_output))
        return pst__check_fault(
            c, rank, i, err, "a pair is one forward and one backward (B or I) action");
    return PST_OK;
}

static pst_status check_row(pst__checking *c, int rank, pst_error *err)
{
    size_t count;
    const pst_action *row = pst_schedule_row(c->schedule, rank, &count);
    for (size_t i = 0; i < count; i++) {
        const pst_op_description *op = pst_op_describe(row[i].op);
        pst_status status = check_pair(c, rank, i, row, count, err);
        if (status != PST_OK)
            return status;
        if (!op->has_microbatch)
            continue;
        if (!op->computes && pst_schedule_rank_of(c->schedule, row[i].stage) != rank)
            return pst__check_fault(c, rank, i, err, "stage %d is on rank %d",
                                    row[i].stage,
                                    pst_schedule_rank_of(c->schedule, row[i].stage));
        if (!op->runs) {
            c->has_messages = 1;
            int forward = row[i].op == PST_OP_SEND_FORWARD ||
                          row[i].op == PST_OP_RECEIVE_BACKWARD;
            if ((forward ? pst_schedule_next_stage(c->schedule, row[i].stage)
                         : pst_schedule_previous_stage(c->schedule, row[i].stage)) < 0)
                return pst__check_fault(c, rank, i, err,
                                        "there is no stage on the other side");
        }
        uint16_t *seen = pst__check_seen(c, row[i].stage, row[i].microbatch);
        if ((status = check_order(c, rank, i, row[i], *seen, err)) ||
            (status = check_slices(c, rank, i, row[i], err)))
            return status;
        *seen = (uint16_t)(*seen | PST__SEEN(row[i].op));
        c->has_backward |= op->computes && (op->frees || op->makes_input_grad);
        c->has_steps |= row[i].op == PST_OP_STEP;
    }
    return PST_OK;
}

pst_status pst__check_missing(const pst__checking *c, int stage, size_t microbatch,
                              const char *what, pst_error *err)
{
    int rank = pst_schedule_rank_of(c->schedule, stage);
    const char *file = pst_schedule_file(c->schedule);
    return pst_error_set_at(err, PST_ESCHEDULE, file, file != NULL ? rank + 1 : 0,
                            "rank %d: %d%s%zu is missing", rank, stage, what,
                            microbatch);
}

/* Every (stage, microbatch) has all that it needs. */
static pst_status check_complete(const pst__checking *c, pst_error *err)
{
    for (int stage = 0; stage < c->stages; stage++) {
        for (size_t i = 0; i < c->microbatches; i++) {
            unsigned seen = *pst__check_seen(c, stage, (uint32_t)i);
            if ((seen & PST__SEEN(PST_OP_FORWARD)) == 0)
                return pst__check_missing(c, stage, i, "F", err);
            if ((seen & PST__SEEN(PST_OP_EVICT)) != 0 &&
                (seen & PST__SEEN(PST_OP_LOAD)) == 0)
                return pst__check_missing(c, stage, i, "LOAD", err);
            if (!c->has_backward || (seen & PST__SEEN(PST_OP_BACKWARD)) != 0)
                continue;
            if ((seen & ANY_BACKWARD) == 0)
                return pst__check_missing(c, stage, i, "B", err);
            if ((seen & PST__SEEN(PST_OP_BACKWARD_INPUT)) == 0)
                return pst__check_missing(c, stage, i, "I", err);
            if ((seen & PST__SEEN(PST_OP_BACKWARD_WEIGHT)) == 0)
                return pst__check_missing(c, stage, i, "W", err);
        }
    }
    return PST_OK;
}

/* In a list with messages: both halves of each that is needed, and no other. */
static pst_status check_message(const pst__checking *c, int maker, size_t i, int user,
                                int send, int receive, pst_error *err)
{
    int needed = pst_schedule_rank_of(c->schedule, maker) !=
                 pst_schedule_rank_of(c->schedule, user);
    int sends = (*pst__check_seen(c, maker, (uint32_t)i) & PST__SEEN(send)) != 0;
    int receives = (*pst__check_seen(c, user, (uint32_t)i) & PST__SEEN(receive)) != 0;
    if (needed && !sends)
        return pst__check_missing(c, maker, i, pst_op_describe(send)->csv, err);
    if (needed && !receives)
        return pst__check_missing(c, user, i, pst_op_describe(receive)->csv, err);
    if (!needed && (sends || receives))
        return pst_error_set(err, PST_ESCHEDULE,
                             "%s: stages %d and %d are on one rank, but a message of "
                             "microbatch %zu is sent or received between them",
                             pst_schedule_name(c->schedule), maker, user, i);
    return PST_OK;
}

static pst_status check_messages(const pst__checking *c, pst_error *err)
{
    for (int stage = 0; stage < c->stages; stage++) {
        const int next = pst_schedule_next_stage(c->schedule, stage);
        for (size_t i = 0; next >= 0 && i < c->microbatches; i++) {
            pst_status status = check_message(c, stage, i, next, PST_OP_SEND_FORWARD,
                                              PST_OP_RECEIVE_FORWARD, err);
            if (status == PST_OK && c->has_backward)
                status = check_message(c, next, i, stage, PST_OP_SEND_BACKWARD,
                                       PST_OP_RECEIVE_BACKWARD, err);
            if (status != PST_OK)
                return status;
        }
    }
    return PST_OK;
}

/* Messages stand after what they carry and before what uses it. */
static pst_status check_message_order(pst__checking *c, pst_error *err)
{
    memset(c->seen, 0, (size_t)c->stages * c->microbatches * sizeof *c->seen);
    for (int rank = 0; rank < pst_schedule_ranks(c->schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(c->schedule, rank, &count);
        for (size_t i = 0; i < count; i++) {
            const pst_op_description *op = pst_op_describe(row[i].op);
            if (!op->has_microbatch)
                continue;
            uint16_t *seen = pst__check_seen(c, row[i].stage, row[i].microbatch);
            unsigned made = *seen;
            if ((row[i].op == PST_OP_SEND_FORWARD &&
                 !(made & PST__SEEN(PST_OP_FORWARD))) ||
                (row[i].op == PST_OP_SEND_BACKWARD &&
                 !(made &
                   (PST__SEEN(PST_OP_BACKWARD) | PST__SEEN(PST_OP_BACKWARD_INPUT)))))
                return pst__check_fault(c, rank, i, err, "is sent before it is made");
            if ((row[i].op == PST_OP_RECEIVE_FORWARD &&
                 (made & PST__SEEN(PST_OP_FORWARD))) ||
                (row[i].op == PST_OP_RECEIVE_BACKWARD &&
                 (made &
                  (PST__SEEN(PST_OP_BACKWARD) | PST__SEEN(PST_OP_BACKWARD_INPUT)))))
                return pst__check_fault(c, rank, i, err,
                                        "is received after it was used");
            *seen = (uint16_t)(made | PST__SEEN(row[i].op));
        }
    }
    return PST_OK;
}

pst_status pst_schedule_check(const pst_env *env, const pst_schedule *schedule,
                              pst_error *err)
{
    pst__checking c = {.env = env,
                       .schedule = schedule,
                       .stages = pst_schedule_stages(schedule),
                       .microbatches = (size_t)pst_schedule_microbatches(schedule)};
    pst_status status;
    c.seen = pst_allocate_array(env, (size_t)c.stages * c.microbatches, sizeof *c.seen);
    if (c.seen == NULL)
        return pst_error_no_memory(err, "a check",
                                   (size_t)c.stages * c.microbatches * sizeof *c.seen);
    status = check_placement(&c, err);
    for (int rank = 0; rank < pst_schedule_ranks(schedule) && status == PST_OK; rank++)
        status = check_row(&c, rank, err);
    if (status == PST_OK)
        status = check_complete(&c, err);
    if (status == PST_OK && c.has_steps)
        status = pst__check_steps(&c, err);
    if (status == PST_OK && c.has_messages)
        status = check_messages(&c, err);
    if (status == PST_OK && c.has_messages)
        status = check_message_order(&c, err);
    pst_release(env, c.seen);
    if (status == PST_OK)
        status = pst__deadlock_check(env, schedule, PST__SENDS_BUFFERED, err);
    return status;
}

pst_status pst_schedule_check_memory(const pst_schedule *schedule, int limit,
                                     pst_error *err)
{
    const pst__checking c = {.schedule = schedule};
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        const int partner = pst_schedule_partner(schedule, rank);
        const int guests =
            partner >= 0 ? pst_schedule_most_evicted(schedule, partner) : 0;
        int held = guests;
        for (size_t i = 0; i < count; i++) {
            const pst_op_description *op = pst_op_describe(row[i].op);
            held += op->saves - op->frees;
            if (held > limit)
                return pst__check_fault(
                    &c, rank, i, err,
                    "the rank then holds %d stage-microbatches%s; the limit "
                    "is %d",
                    held, guests > 0 ? ", its partner's counted" : "", limit);
        }
    }
    return PST_OK;
}
