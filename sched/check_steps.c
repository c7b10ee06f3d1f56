/* SPDX-License-Identifier: BSD-3-Clause */
/* check_steps.c - the batches of asynchronous lists. */
#include <inttypes.h>

#include "sched/check_state.h"

/* Every stage steps after the same microbatches, and after the last. */
static pst_status check_steps_agree(const pst__checking *c, pst_error *err)
{
    for (size_t i = 0; i < c->microbatches; i++) {
        unsigned any = i + 1 == c->microbatches;
        for (int stage = 0; stage < c->stages; stage++)
            any |= *pst__check_seen(c, stage, (uint32_t)i) & PST__SEEN(PST_OP_STEP);
        for (int stage = 0; stage < c->stages && any != 0; stage++)
            if ((*pst__check_seen(c, stage, (uint32_t)i) & PST__SEEN(PST_OP_STEP)) == 0)
                return pst__check_missing(c, stage, i, "STEP", err);
    }
    if (pst_schedule_slices(c->schedule) > 1)
        return pst_error_set(
            err, PST_ESCHEDULE,
            "%s: has STEP, and cuts sequences into %d slices; it can do "
            "one of the two",
            pst_schedule_name(c->schedule), pst_schedule_slices(c->schedule));
    if (pst_schedule_replicas(c->schedule) > 1)
        return pst_error_set(err, PST_ESCHEDULE,
                             "%s: has STEP, and %d replicas of the model, which would "
                             "have to agree before each; use one",
                             pst_schedule_name(c->schedule),
                             pst_schedule_replicas(c->schedule));
    return PST_OK;
}

/* Where a stage is in its batches, while its row is read. */
typedef struct batch {
    uint32_t first; /* of the batch that is summed at present                  */
    uint32_t ended; /* of its microbatches, by B or W                          */
    uint32_t steps;
} batch;

/* The STEP that ends the batch of `microbatch`; all stages have the same. */
static uint32_t last_of_batch(const pst__checking *c, uint32_t microbatch)
{
    while ((*pst__check_seen(c, 0, microbatch) & PST__SEEN(PST_OP_STEP)) == 0)
        microbatch++;
    return microbatch;
}

/* A forward of batch t with two versions of the weights needs the one that t - 1
 * updates made. */
static pst_status check_version(const pst__checking *c, int rank, size_t i,
                                pst_action a, const batch *b, pst_error *err)
{
    uint32_t number = b->steps, first = b->first, last;
    if (pst_schedule_weight_policy(c->schedule) != PST_VERSIONS_DOUBLE)
        return PST_OK;
    const uint32_t needed = last_of_batch(c, first);
    while ((last = last_of_batch(c, first)) < a.microbatch) {
        number++;
        first = last + 1;
    }
    if (number <= b->steps + 1)
        return PST_OK;
    return pst__check_fault(c, rank, i, err,
                            "comes before %uSTEP%" PRIu32
                            ", which makes the weights that its batch uses",
                            a.stage, needed);
}

static pst_status check_batch(const pst__checking *c, int rank, size_t i, pst_action a,
                              batch *b, pst_error *err)
{
    const pst_op_description *op = pst_op_describe(a.op);
    if (op->makes_output)
        return check_version(c, rank, i, a, b, err);
    if (a.op == PST_OP_STEP) {
        if (a.microbatch < b->first || b->ended < a.microbatch - b->first + 1)
            return pst__check_fault(
                c, rank, i, err,
                "comes before the backwards of its batch, microbatches %" PRIu32
                " to %" PRIu32 ", have ended",
                b->first, a.microbatch);
        *b = (batch){.first = a.microbatch + 1, .steps = b->steps + 1};
    } else if (op->computes && op->frees) {
        const uint32_t last = last_of_batch(c, b->first);
        if (a.microbatch > last)
            return pst__check_fault(c, rank, i, err,
                                    "comes before %uSTEP%" PRIu32
                                    ", whose sum it does not belong to",
                                    a.stage, last);
        b->ended++;
    }
    return PST_OK;
}

pst_status pst__check_steps(const pst__checking *c, pst_error *err)
{
    pst_status status = check_steps_agree(c, err);
    if (status != PST_OK)
        return status;
    batch *batches = pst_allocate_array(c->env, (size_t)c->stages, sizeof *batches);
    if (batches == NULL)
        return pst_error_no_memory(err, "a check", (size_t)c->stages * sizeof *batches);
    for (int rank = 0; rank < pst_schedule_ranks(c->schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(c->schedule, rank, &count);
        for (size_t i = 0; i < count && status == PST_OK; i++)
            if (pst_op_describe(row[i].op)->runs)
                status = check_batch(c, rank, i, row[i], &batches[row[i].stage], err);
    }
    pst_release(c->env, batches);
    return status;
}
