/* SPDX-License-Identifier: BSD-3-Clause */
/* dump.c - where every worker is, in words. */
#include <stdarg.h>
#include <stdio.h>

#include "stages/engine.h"

typedef struct writer {
    char *text;
    size_t size;
    size_t length; /* of the whole, cut or not                                 */
} writer;

static void put(writer *out, const char *format, ...) PST_PRINTF(2, 3);

static void put(writer *out, const char *format, ...)
{
    va_list arguments;
    const size_t used = out->length < out->size ? out->length : out->size;
    va_start(arguments, format);
    const int length = vsnprintf(out->size > used ? out->text + used : NULL,
                                 out->size - used, format, arguments);
    va_end(arguments);
    if (length > 0)
        out->length += (size_t)length;
}

/* A worker in the list, at its step `position`. */
static void put_action(writer *out, const pst_pipeline *p, int rank, uint32_t state,
                       uint32_t position)
{
    const pst_rank_footprint *row = &p->run.program->footprint->rank[rank];
    char action[32];
    char message[80];
    if (position >= row->step_count) {
        put(out, "rank %d has ended its list\n", rank);
        return;
    }
    const pst_step *step = &row->steps[position];
    pst_action_text(step->action, action, sizeof action);
    if (state != PST__WAITS || step->receive == PST__NONE) {
        put(out, "rank %d is in %s (action %u of %zu)\n", rank, action, position + 1,
            row->step_count);
        return;
    }
    const pst_message key = {
        .microbatch = step->action.microbatch,
        .stage = step->action.stage,
        .direction = step->action.op == PST_OP_FORWARD ? PST__FORWARD : PST__BACKWARD};
    put(out, "rank %d waits in %s (action %u of %zu) for %s, from rank %d\n", rank,
        action, position + 1, row->step_count,
        pst__message_text(&key, message, sizeof message),
        p->run.program->channels[step->receive]->sender);
}

size_t pst_pipeline_dump(const pst_pipeline *pipeline, char *text, size_t size)
{
    writer out = {text, size, 0};
    if (size > 0)
        text[0] = '\0';
    for (int rank = 0; rank < pipeline->ranks; rank++) {
        const pst_worker *w = &pipeline->workers[rank];
        /* relaxed: a picture of the moment; the two may be one action apart. */
        const uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
        const uint32_t at = atomic_load_explicit(&w->position, memory_order_relaxed);
        switch (state) {
        case PST__IDLE:
            put(&out, "rank %d is idle\n", rank);
            break;
        case PST__REDUCES:
        case PST__STEPS:
            put(&out, "rank %d is in %s of stage %u\n", rank,
                state == PST__STEPS ? "step" : "reduce", at);
            break;
        default:
            put_action(&out, pipeline, rank, state, at);
        }
    }
    return out.length;
}
