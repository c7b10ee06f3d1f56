/* SPDX-License-Identifier: BSD-3-Clause */
/* dump.c - where every worker is, in words. */
#include <stdarg.h>
#include <stdio.h>

#include "stages/crossing.h"

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

typedef struct moment {
    uint32_t state;
    uint32_t position;
    uint64_t since_ns;
} moment;

/* relaxed throughout: a picture of the moment; the parts may be one action apart. */
static moment look_at(const pst_worker *w)
{
    return (moment){
        .state = atomic_load_explicit(&w->state, memory_order_relaxed),
        .position = atomic_load_explicit(&w->position, memory_order_relaxed),
        .since_ns = atomic_load_explicit(&w->since_ns, memory_order_relaxed)};
}

/* The step a worker is at, NULL where it is at none. */
static const pst_step *step_of(const pst_pipeline *p, int rank, const moment *now)
{
    if (now->state != PST__WAITS && now->state != PST__RUNS)
        return NULL;
    const pst_rank_footprint *row = &p->run.program->footprint->rank[rank];
    return now->position < row->step_count ? &row->steps[now->position] : NULL;
}

static double seconds_since(uint64_t since_ns)
{
    const uint64_t now = pst__now_ns();
    return now > since_ns ? 1e-9 * (double)(now - since_ns) : 0;
}

/* The stage whose gradients a worker waits for behind its list; -1: none. */
static int tied_stage(const pst_pipeline *p, int rank, const moment *now)
{
    if (now->state != PST__WAITS)
        return -1;
    const size_t steps = p->run.program->footprint->rank[rank].step_count;
    return now->position > steps ? (int)(now->position - steps - 1) : -1;
}

/* A worker in the list. */
static void put_action(writer *out, const pst_pipeline *p, int rank, const moment *now)
{
    const size_t steps = p->run.program->footprint->rank[rank].step_count;
    const double seconds = seconds_since(now->since_ns);
    const pst_step *step = step_of(p, rank, now);
    char action[32];
    char message[80];
    const int tied = tied_stage(p, rank, now);
    if (!step) {
        put(out, "rank %d has ended its list", rank);
        if (tied >= 0)
            put(out,
                " and waited for %.2f s for the gradients of stage %d, from rank %d",
                seconds, tied, p->stages[tied].rank);
        return;
    }
    pst_action_text(step->action, action, sizeof action);
    if (now->state != PST__WAITS || step->receive == PST__NONE) {
        put(out, "rank %d has been in %s (action %u of %zu) for %.2f s", rank, action,
            now->position + 1, steps, seconds);
        return;
    }
    const pst_message key = {
        .microbatch = step->action.microbatch,
        .stage = step->action.stage,
        .direction = step->action.op == PST_OP_FORWARD ? PST__FORWARD : PST__BACKWARD};
    put(out,
        "rank %d has waited in %s (action %u of %zu) for %.2f s for %s, from rank %d",
        rank, action, now->position + 1, steps, seconds,
        pst__message_text(&key, message, sizeof message),
        p->run.program->channels[step->receive]->sender);
}

static void put_worker(writer *out, const pst_pipeline *p, int rank)
{
    const moment now = look_at(&p->workers[rank]);
    const pst_transport *t = p->options.transport;
    if (!pst__is_here(p, rank)) {
        put(out, "rank %d is in %s", rank, t->where(t->self, p->process_of_rank[rank]));
        return;
    }
    switch (now.state) {
    case PST__IDLE:
        put(out, "rank %d is idle", rank);
        break;
    case PST__REDUCES:
    case PST__STEPS:
        put(out, "rank %d has been in %s of stage %u for %.2f s", rank,
            now.state == PST__STEPS ? "step" : "reduce", now.position,
            seconds_since(now.since_ns));
        break;
    default:
        put_action(out, p, rank, &now);
    }
}

/* A line for each rank; `culprit` -1: nobody. */
static size_t put_workers(const pst_pipeline *p, int culprit, char *text, size_t size)
{
    writer out = {text, size, 0};
    if (size > 0)
        text[0] = '\0';
    for (int rank = 0; rank < p->ranks; rank++) {
        put_worker(&out, p, rank);
        put(&out, "%s\n", rank == culprit ? "; the culprit" : "");
    }
    return out.length;
}

size_t pst_pipeline_dump(const pst_pipeline *pipeline, char *text, size_t size)
{
    return put_workers(pipeline, -1, text, size);
}

void pst__pipeline_write_report(pst_pipeline *pipeline, int culprit)
{
    put_workers(pipeline, culprit, pipeline->report, pipeline->report_room);
}

char *pst__pipeline_place_text(const pst_pipeline *pipeline, int rank, char *text,
                               size_t size)
{
    const moment now = look_at(&pipeline->workers[rank]);
    const pst_step *step = step_of(pipeline, rank, &now);
    const int tied = tied_stage(pipeline, rank, &now);
    char action[32];
    if (tied >= 0)
        snprintf(text, size, "a wait for the gradients of stage %d", tied);
    else if (step)
        snprintf(text, size, "stage %d, microbatch %d, %s (%s)", step->action.stage,
                 (int)step->action.microbatch, pst_op_describe(step->action.op)->name,
                 pst_action_text(step->action, action, sizeof action));
    else if (now.state == PST__REDUCES || now.state == PST__STEPS)
        snprintf(text, size, "stage %u, %s", now.position,
                 now.state == PST__STEPS ? "step" : "reduce");
    else
        snprintf(text, size, "no action");
    return text;
}

/* The rank whose message or gradients `rank` waits for; -1: it does not wait. */
static int waits_for(const pst_pipeline *p, int rank)
{
    const moment now = look_at(&p->workers[rank]);
    const pst_step *step = step_of(p, rank, &now);
    const int tied = tied_stage(p, rank, &now);
    if (tied >= 0)
        return p->stages[tied].rank;
    if (now.state != PST__WAITS || !step || step->receive == PST__NONE)
        return -1;
    return p->run.program->channels[step->receive]->sender;
}

/* Where the chain of waits that begins at `rank` ends. */
static int last_of_chain(const pst_pipeline *p, int rank)
{
    for (int hops = 0; hops < p->ranks; hops++) {
        const int next = waits_for(p, rank);
        if (next < 0)
            return rank;
        rank = next;
    }
    return rank; /* a circle, which check.h rules out */
}

int pst__pipeline_culprit(const pst_pipeline *pipeline)
{
    int culprit = -1, waiting = 0;
    uint64_t earliest = UINT64_MAX;
    for (int rank = 0; rank < pipeline->ranks; rank++) {
        const moment now = look_at(&pipeline->workers[rank]);
        if (now.state == PST__WAITS)
            waiting = rank;
        if (now.state == PST__WAITS || now.state == PST__IDLE ||
            now.since_ns >= earliest)
            continue;
        culprit = rank;
        earliest = now.since_ns;
    }
    return culprit >= 0 ? culprit : last_of_chain(pipeline, waiting);
}

int pst__pipeline_waiters(const pst_pipeline *pipeline, int rank)
{
    int count = 0;
    for (int other = 0; other < pipeline->ranks; other++)
        count += other != rank && last_of_chain(pipeline, other) == rank;
    return count;
}

int pst_pipeline_abandoned(const pst_pipeline *pipeline, size_t *bytes)
{
    int count = 0;
    size_t sum = 0;
    for (int rank = 0; rank < pipeline->ranks; rank++) {
        const pst_worker *w = &pipeline->workers[rank];
        count += look_at(w).state != PST__IDLE;
        sum += w->resident.bytes + w->working.bytes;
    }
    if (!pipeline->broken)
        count = 0;
    *bytes = count > 0 ? sum : 0;
    return count;
}

/* Is this thread the worker or one of its team? */
static bool has_thread(const pst_worker *w, int thread_id)
{
    for (int i = 0; i < pst_team_size(w->team) - 1; i++)
        if (w->team->members[i].thread_id == thread_id)
            return true;
    return w->info.thread_id == thread_id;
}

int pst_pipeline_here(const pst_pipeline *pipeline, pst_whereabouts *place)
{
    const int thread_id = pst__thread_id();
    for (int rank = 0; rank < pipeline->ranks; rank++) {
        const pst_worker *w = &pipeline->workers[rank];
        if (!has_thread(w, thread_id))
            continue;
        const moment now = look_at(w);
        const pst_step *step = step_of(pipeline, rank, &now);
        *place = (pst_whereabouts){.rank = rank,
                                   .stage = -1,
                                   .microbatch = -1,
                                   .iteration = pipeline->run.iteration,
                                   .name = "no action"};
        if (step) {
            place->stage = step->action.stage;
            place->microbatch = (int)step->action.microbatch;
            place->name = pst_op_describe(step->action.op)->name;
        } else if (now.state == PST__REDUCES || now.state == PST__STEPS) {
            place->stage = (int)now.position;
            place->name = now.state == PST__STEPS ? "step" : "reduce";
        }
        return 1;
    }
    return 0;
}
