/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c - the loop that runs a rank's actions. */
#include "stages/worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stages/crossing.h"
#include "stages/settle.h"

/* A worker that waits for another process has nothing to do but to move transfers on:
 * one of a process so often, since the transport's own thread looks seldom, so as to
 * leave the core to those that compute. */
enum { PEER_NAP_NS = 100000 };

/* relaxed throughout: for the watchdog and for people, who need no order. */
static void show_state(pst_worker *w, uint32_t state)
{
    atomic_store_explicit(&w->state, state, memory_order_relaxed);
}

static void show_position(pst_worker *w, uint32_t position)
{
    atomic_store_explicit(&w->position, position, memory_order_relaxed);
}

static void show_time(pst_worker *w, uint64_t now_ns)
{
    atomic_store_explicit(&w->since_ns, now_ns, memory_order_relaxed);
}

/* acquire, though nothing is lost with relaxed (tests/stages/test_explore.c): a worker
 * only leaves, and the caller reads why the run has ended after all have finished. */
static bool has_ended(const pst_pipeline *p)
{
    return atomic_load_explicit(&p->ended, memory_order_acquire) != PST__GOES_ON;
}

/* The first rank to fail is the one whose error is told. Returns false, always. */
static bool fail(pst_worker *w)
{
    pst_pipeline *p = w->pipeline;
    if (pst__pipeline_claim_fault(p, (uint32_t)w->rank + 1))
        pst__pipeline_write_report(p, w->rank);
    pst__pipeline_end(p, PST__FAILED);
    return false;
}

/* A random pause of up to 64 us, one in four of them asleep; for tests. */
static void delay(pst_worker *w)
{
    if (w->delay_state == 0)
        return;
    w->delay_state ^= w->delay_state << 13; /* Marsaglia's xorshift64 */
    w->delay_state ^= w->delay_state >> 7;
    w->delay_state ^= w->delay_state << 17;
    const uint64_t pause_ns = w->delay_state >> 48;
    if (w->delay_state % 4 == 0) {
        pst_atomic_u32 nobody = 0;
        pst__futex_wait(&nobody, 0, pause_ns + 1);
        return;
    }
    for (const uint64_t start = pst__now_ns(); pst__now_ns() - start < pause_ns;)
        pst__pause();
}

bool pst__worker_has_to_end(const pst_worker *worker)
{
    return has_ended(worker->pipeline);
}

/* The channel of `link` where its other rank is in another process, else NULL. */
static pst_crossing *crossing_of(const pst_pipeline *p, uint32_t link)
{
    return p->run.program->crossings && link != PST__NONE
               ? p->run.program->crossings[link]
               : NULL;
}

void pst__worker_delay(pst_worker *worker)
{
    delay(worker);
}

/* A message of `channel`, or without one what `word` of tie.h tells of. */
static bool has_come(const pst_worker *w, pst_channel *channel, int word)
{
    return channel ? !pst__ring_is_empty(&channel->ring)
                   : pst__tie_is_ready(w->pipeline, word);
}

/* Look for that for a while, then sleep until something comes. */
static void wait_for(pst_worker *w, pst_channel *channel, int word)
{
    pst_pipeline *p = w->pipeline;
    const int sender = channel ? channel->sender : pst__tie_rank(p, word);
    const pst_transport *t = pst__is_here(p, sender) ? NULL : p->options.transport;
    const uint64_t nap = t ? (uint64_t)p->workers_here * PEER_NAP_NS : 0;
    if (t)
        t->progress(t->self);
    const uint64_t start = p->spin_ns ? pst__now_ns() : 0;
    for (unsigned looks = 1; p->spin_ns; looks++) {
        if (has_come(w, channel, word) || has_ended(p))
            return;
        if (t)
            t->progress(t->self);
        pst__pause();
        if (looks % 64 == 0 && pst__now_ns() - start > p->spin_ns)
            break;
    }
    delay(w);
    pst__doorbell_arm(&w->doorbell, sender);
    delay(w);
    /* seq_cst: S4 of doorbell.h, with the flag in place of the count. */
    if (!has_come(w, channel, word) &&
        atomic_load_explicit(&p->ended, memory_order_seq_cst) == PST__GOES_ON)
        pst__doorbell_sleep(&w->doorbell, sender, nap);
    pst__doorbell_disarm(&w->doorbell);
}

/* The message that `step` needs has come, and its length is noted. False: the run ends.
 */
static bool receive(pst_worker *w, const pst_step *step, pst_lengths *lengths)
{
    pst_pipeline *p = w->pipeline;
    const pst_run *run = &p->run;
    const bool forward = step->action.op == PST_OP_FORWARD;
    const pst_message key = {.microbatch = step->action.microbatch,
                             .stage = step->action.stage,
                             .direction = forward ? PST__FORWARD : PST__BACKWARD,
                             .iteration = run->iteration};
    pst_channel *channel = run->program->channels[step->receive];
    pst_message message;
    show_state(w, PST__WAITS);
    delay(w);
    for (;;) {
        switch (pst__channel_take(channel, &key, &message, &w->error)) {
        case PST__TAKEN:
            *(forward ? &lengths->input : &lengths->output_grad) = message.bytes;
            return !has_ended(p);
        case PST__WRONG:
            return fail(w);
        case PST__NOT_YET:
            if (has_ended(p))
                return false;
            wait_for(w, channel, -1);
        }
    }
}

/* The product of `step` belongs to `stage` from now on. */
static bool hand_over(pst_worker *w, const pst_step *step, int stage,
                      pst_direction direction, void *data, size_t bytes)
{
    pst_pipeline *p = w->pipeline;
    const pst_run *run = &p->run;
    if (step->send == PST__NONE) {
        pst_lengths *lengths =
            &p->lengths[(size_t)stage * (size_t)run->program->footprint->microbatches +
                        step->action.microbatch];
        *(direction == PST__FORWARD ? &lengths->input : &lengths->output_grad) = bytes;
        return true;
    }
    const pst_message message = {.microbatch = step->action.microbatch,
                                 .stage = (uint16_t)stage,
                                 .direction = (uint8_t)direction,
                                 .iteration = run->iteration,
                                 .bytes = bytes,
                                 .data = data};
    pst_channel *channel = run->program->channels[step->send];
    delay(w);
    pst_crossing *crossing = crossing_of(p, step->send);
    if (crossing) {
        pst__crossing_send(crossing, &message);
        return true;
    }
    if (!pst__channel_send(channel, &message)) {
        char text[80];
        pst_error_set(&w->error, PST_ESYSTEM,
                      "rank %d has no room to send %s to rank %d, which its list rules "
                      "out; please report this",
                      w->rank, pst__message_text(&message, text, sizeof text),
                      channel->receiver);
        return fail(w);
    }
    delay(w);
    pst__doorbell_ring(&p->workers[channel->receiver].doorbell, channel->sender);
    return true;
}

/* Slot `number` of `rank`, NULL for none. */
static void *buffer(const pst_worker *w, int rank, uint32_t number)
{
    if (number == PST__NONE)
        return NULL;
    const pst_pipeline *p = w->pipeline;
    return p->workers[rank].working.base +
           p->run.program->footprint->rank[rank].slot_offset[number];
}

/* Where `step` puts what it makes for `rank`. False: the run ends. */
static bool product(pst_worker *w, const pst_step *step, int rank, uint32_t number,
                    void **place)
{
    pst_crossing *crossing = crossing_of(w->pipeline, step->send);
    if (!crossing) {
        *place = buffer(w, rank, number);
        return true;
    }
    return pst__crossing_claim(w, crossing, place);
}

static const char *action_name(const pst_step *step, char *text, size_t size)
{
    return pst_action_text(step->action, text, size);
}

/* "microbatch 3", or "microbatch 1, slice 0". */
static const char *unit_name(const pst_work *work, char *text, size_t size)
{
    if (work->slices > 1)
        snprintf(text, size, "microbatch %d, slice %d", work->microbatch, work->slice);
    else
        snprintf(text, size, "microbatch %d", work->microbatch);
    return text;
}

/* Make one call; a failure names the action and carries the callback's own sentence. */
static bool call(pst_worker *w, pst_stage_function function, const pst_step *step,
                 const char *what, pst_work *work)
{
    pst_error own = PST_ERROR_INIT;
    const pst_placed_stage *placed = &w->pipeline->stages[work->stage];
    const pst_status status = function(placed->stage.self, work, &own);
    if (status == PST_OK)
        return true;
    char text[32], unit[48];
    const char *sentence = own.text[0] ? own.text : pst_status_text(status);
    if (step)
        pst_error_set(&w->error, status, "stage %d, %s, %s (%s): %s", work->stage,
                      unit_name(work, unit, sizeof unit), what,
                      action_name(step, text, sizeof text), sentence);
    else
        pst_error_set(&w->error, status, "stage %d, %s: %s", work->stage, what,
                      sentence);
    return fail(w);
}

static bool length_fits(pst_worker *w, const pst_step *step, const pst_work *work,
                        const char *what, size_t bytes, size_t most)
{
    char text[32], unit[48];
    if (bytes <= most)
        return true;
    pst_error_set(
        &w->error, PST_ECALLBACK,
        "stage %d, %s (%s): the callback says its %s has %zu bytes; the buffer has %zu",
        work->stage, unit_name(work, unit, sizeof unit),
        action_name(step, text, sizeof text), what, bytes, most);
    return fail(w);
}

/* Of debug builds: what a callback reads of a buffer before it wrote there is NaN, be
 * it from a slot's last owner or beyond the rows of a smaller microbatch. */
static void spoil(void *fresh, size_t bytes)
{
#ifdef PST_DEBUG
    if (fresh)
        memset(fresh, 0xff, bytes);
#else
    (void)fresh;
    (void)bytes;
#endif
}

static bool forward(pst_worker *w, const pst_step *step, const pst_placed_stage *placed,
                    pst_work *work)
{
    const pst_stage *s = &placed->stage;
    const int after = pst__stage_after(w->pipeline, work->stage);
    if (after >= 0) {
        if (!product(w, step, w->pipeline->stages[after].rank, step->output,
                     &work->output))
            return false;
        work->output_bytes = s->output_bytes;
    }
    spoil(work->scratch, s->scratch_bytes);
    spoil(work->output, s->output_bytes);
    spoil(work->saved_for_input, s->saved_for_input_bytes);
    spoil(work->saved_for_weight, s->saved_for_weight_bytes);
    if (!call(w, s->forward, step, "forward", work))
        return false;
    return after < 0 ||
           length_fits(w, step, work, "output", work->output_bytes, s->output_bytes);
}

static bool backward_input(pst_worker *w, const pst_step *step,
                           const pst_placed_stage *placed, pst_work *work)
{
    const pst_stage *s = &placed->stage;
    const int before = pst__stage_before(w->pipeline, work->stage);
    if (before >= 0) {
        if (!product(w, step, w->pipeline->stages[before].rank, step->input_grad,
                     &work->input_grad))
            return false;
        work->input_grad_bytes = s->input_bytes;
    }
    spoil(work->scratch, s->scratch_bytes);
    spoil(work->input_grad, s->input_bytes);
    spoil(work->kept, s->kept_bytes);
    if (!call(w, s->backward_input, step, "backward-input", work))
        return false;
    return length_fits(w, step, work, "input gradient", work->input_grad_bytes,
                       s->input_bytes);
}

static void add(float *restrict sum, const float *restrict more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += more[i];
}

static bool backward_weight(pst_worker *w, const pst_step *step,
                            const pst_placed_stage *placed, pst_work *work)
{
    const pst_stage *s = &placed->stage;
    if (!s->backward_weight)
        return true;
    const size_t bytes = s->gradient_count * sizeof(float);
    work->gradients = placed->gradients;
    if (step->waiting != PST__NONE) {
        work->gradients = buffer(w, w->rank, step->waiting);
        memset(work->gradients, 0, bytes);
    }
    spoil(work->scratch, s->scratch_bytes);
    if (!call(w, s->backward_weight, step, "backward-weight", work))
        return false;
    const uint32_t *merges = w->pipeline->run.program->footprint->rank[w->rank].merges;
    for (uint32_t i = 0; i < step->merge_count; i++)
        add(placed->gradients, buffer(w, w->rank, merges[step->merge_first + i]),
            s->gradient_count);
    return true;
}

/* EVICT and LOAD: what F saved goes to the partner's memory, and back. */
static void move(const pst_worker *w, const pst_step *step,
                 const pst_placed_stage *placed)
{
    const pst_stage *s = &placed->stage;
    const uint32_t own[3] = {step->input, step->saved_for_input,
                             step->saved_for_weight};
    const size_t bytes[3] = {s->input_bytes, s->saved_for_input_bytes,
                             s->saved_for_weight_bytes};
    const pst_pipeline *p = w->pipeline;
    const pst_rank_footprint *row = &p->run.program->footprint->rank[w->rank];
    char *base = p->workers[row->partner].working.base;
    const size_t *offset = row->away_offset;
    for (int k = 0; k < 3; k++) {
        if (step->away[k] == PST__NONE)
            continue;
        void *here = buffer(w, w->rank, own[k]), *there = base + offset[step->away[k]];
        if (step->action.op == PST_OP_EVICT)
            memcpy(there, here, bytes[k]);
        else
            memcpy(here, there, bytes[k]);
    }
}

/* STEP: the stage's weights take in what was summed, and the sum begins again. */
static bool update(pst_worker *w, const pst_step *step, const pst_placed_stage *placed,
                   pst_work *work)
{
    const pst_stage *s = &placed->stage;
    if (step->stash != PST__NONE)
        memcpy(buffer(w, w->rank, step->stash), placed->weights, s->weight_bytes);
    work->update = (int)step->update;
    work->gradients = placed->gradients;
    work->optimizer = placed->optimizer;
    if (s->reduce && !call(w, s->reduce, step, "reduce", work))
        return false;
    if (s->step && !call(w, s->step, step, "step", work))
        return false;
    if (placed->gradients)
        memset(placed->gradients, 0, s->gradient_count * sizeof(float));
    return true;
}

static bool compute(pst_worker *w, const pst_step *step, const pst_placed_stage *placed,
                    pst_work *work)
{
    switch ((pst_op)step->action.op) {
    case PST_OP_FORWARD:
        return forward(w, step, placed, work);
    case PST_OP_BACKWARD:
        return backward_input(w, step, placed, work) &&
               backward_weight(w, step, placed, work);
    case PST_OP_BACKWARD_INPUT:
        return backward_input(w, step, placed, work);
    case PST_OP_BACKWARD_WEIGHT:
        return backward_weight(w, step, placed, work);
    case PST_OP_EVICT:
    case PST_OP_LOAD:
        move(w, step, placed);
        return true;
    case PST_OP_STEP:
        return update(w, step, placed, work);
    default:
        return true;
    }
}

static void note(pst_worker *w, const pst_step *step, uint64_t start_ns)
{
    const int cpu = pst__thread_cpu();
    const uint64_t end_ns = pst__now_ns();
    show_time(w, end_ns);
    w->events[w->event_count++] =
        (pst_trace_event){.start_ns = start_ns,
                          .end_ns = end_ns,
                          .microbatch = step->action.microbatch,
                          .iteration = (uint32_t)w->pipeline->run.iteration,
                          .stage = step->action.stage,
                          .cpu = cpu < 0 ? UINT16_MAX : (uint16_t)cpu,
                          .op = step->action.op,
                          .paired = step->action.paired,
                          .rank = (uint16_t)w->rank};
}

static pst_work prepare(const pst_worker *w, const pst_step *step,
                        const pst_placed_stage *placed, const pst_lengths *lengths)
{
    const pst_run *run = &w->pipeline->run;
    const int slices = run->program->footprint->slices;
    return (pst_work){
        .stage = step->action.stage,
        .microbatch = (int)step->action.microbatch / slices,
        .slice = (int)step->action.microbatch % slices,
        .slices = slices,
        .rank = w->rank,
        .iteration = run->iteration,
        .training = run->program->footprint->training,
        .team = w->team,
        .input = buffer(w, w->rank, step->input),
        .input_bytes = step->input == PST__NONE ? 0 : lengths->input,
        .output_grad = buffer(w, w->rank, step->output_grad),
        .output_grad_bytes = step->output_grad == PST__NONE ? 0 : lengths->output_grad,
        .saved_for_input = buffer(w, w->rank, step->saved_for_input),
        .saved_for_weight = buffer(w, w->rank, step->saved_for_weight),
        .kept = buffer(w, w->rank, step->kept),
        .scratch = placed->stage.scratch_bytes ? w->working.base : NULL,
        .sequence = buffer(w, w->rank, step->sequence),
        .weights = step->weights == PST__NONE ? placed->weights
                                              : buffer(w, w->rank, step->weights),
    };
}

/* False: the run ends. */
static bool run_step(pst_worker *w, const pst_step *step)
{
    pst_pipeline *p = w->pipeline;
    const pst_placed_stage *placed = &p->stages[step->action.stage];
    pst_lengths *lengths =
        &p->lengths[(size_t)step->action.stage *
                        (size_t)p->run.program->footprint->microbatches +
                    step->action.microbatch];
    if (step->receive != PST__NONE && !receive(w, step, lengths))
        return false;
    if (has_ended(p))
        return false;
    show_state(w, PST__RUNS);
    const uint64_t start_ns = pst__now_ns();
    show_time(w, start_ns);
    pst_work work = prepare(w, step, placed, lengths);
    if (!compute(w, step, placed, &work))
        return false;
    note(w, step, start_ns);
    const pst_op_description *op = pst_op_describe(step->action.op);
    const int after = pst__stage_after(p, work.stage);
    const int before = pst__stage_before(p, work.stage);
    if (op->makes_output && after >= 0)
        return hand_over(w, step, after, PST__FORWARD, work.output, work.output_bytes);
    if (op->makes_input_grad && before >= 0)
        return hand_over(w, step, before, PST__BACKWARD, work.input_grad,
                         work.input_grad_bytes);
    return true;
}

static void zero_gradients(pst_worker *w)
{
    const pst_pipeline *p = w->pipeline;
    for (int stage = 0; stage < p->stage_count; stage++)
        if (p->stages[stage].rank == w->rank && p->stages[stage].gradients)
            memset(p->stages[stage].gradients, 0,
                   p->stages[stage].stage.gradient_count * sizeof(float));
}

/* The sums that are this rank's, as far as others are ready for them. */
static void tie_up(pst_worker *w, const pst_step *step)
{
    const pst_op_description *op = pst_op_describe(step->action.op);
    if (op->computes && op->frees)
        pst__tie_count_weight(w, step->action.stage);
    pst__tie_sum_ready(w);
}

/* And those that are left behind the list. */
static void finish_ties(pst_worker *w, size_t step_count)
{
    int word;
    while (((word = pst__tie_sum_ready(w)) >= 0 || (word = pst__tie_collect(w)) >= 0) &&
           !has_ended(w->pipeline)) {
        show_position(w, (uint32_t)(step_count + 1 + (size_t)word));
        show_state(w, PST__WAITS);
        show_time(w, pst__now_ns());
        wait_for(w, NULL, word);
        show_state(w, PST__RUNS);
    }
    show_position(w, (uint32_t)step_count);
}

static void run_actions(pst_worker *w)
{
    const pst_run *run = &w->pipeline->run;
    const pst_rank_footprint *row = &run->program->footprint->rank[w->rank];
    w->event_count = 0;
    show_time(w, pst__now_ns());
    if (run->program->footprint->training)
        zero_gradients(w);
    pst__tie_begin(w);
    for (size_t i = 0; i < row->step_count; i++) {
        show_position(w, (uint32_t)i);
        if (run->program->crossings)
            pst__crossings_post(w, (uint32_t)i);
        if (row->steps[i].action.microbatch >= run->microbatches)
            continue;
        if (!run_step(w, &row->steps[i]))
            return;
        tie_up(w, &row->steps[i]);
    }
    finish_ties(w, row->step_count);
}

/* `reduce` or `step` of every stage of the rank. */
static void run_stages(pst_worker *w, bool step)
{
    const pst_pipeline *p = w->pipeline;
    show_state(w, step ? PST__STEPS : PST__REDUCES);
    for (int stage = 0; stage < p->stage_count; stage++) {
        const pst_placed_stage *placed = &p->stages[stage];
        const pst_stage_function function =
            step ? placed->stage.step : placed->stage.reduce;
        if (placed->rank != w->rank || !function)
            continue;
        pst_work work = {.stage = stage,
                         .microbatch = -1,
                         .slices = 1,
                         .rank = w->rank,
                         .iteration = p->run.iteration,
                         .training = 1,
                         .team = w->team,
                         .scratch =
                             placed->stage.scratch_bytes ? w->working.base : NULL,
                         .weights = placed->weights,
                         .gradients = placed->gradients,
                         .optimizer = placed->optimizer};
        show_position(w, (uint32_t)stage);
        show_time(w, pst__now_ns());
        if (has_ended(p) || !call(w, function, NULL, step ? "step" : "reduce", &work))
            return;
    }
}

static void finish_phase(pst_worker *w)
{
    pst_pipeline *p = w->pipeline;
    delay(w);
    show_state(w, PST__IDLE);
    /* release: pairs with the acquire of all_finished(), after which the caller reads
     * what this worker wrote. The acquire is spare (tests/stages/test_explore.c): the
     * additions are one release sequence, and `start` brings what the others wrote. */
    const uint32_t before =
        atomic_fetch_add_explicit(&p->finished, 1, memory_order_acq_rel);
    if ((before + 1) % PST__ENDED_EARLY == (uint32_t)p->workers_here)
        pst__futex_wake(&p->finished, true);
}

static void *worker_main(void *argument)
{
    pst_worker *w = argument;
    pst_pipeline *p = w->pipeline;
    uint32_t started = 0; /* phases are numbered from 1 */
    pst__worker_settle(w);
    for (;;) {
        finish_phase(w);
        pst__wait_change(&p->start, started++, p->spin_ns);
        /* relaxed: the change of `start` published it. */
        if (atomic_load_explicit(&p->quit, memory_order_relaxed)) {
            pst__team_stop(w->team);
            return NULL;
        }
        switch (p->run.phase) {
        case PST__PHASE_ACTIONS:
            run_actions(w);
            break;
        case PST__PHASE_REDUCE:
            run_stages(w, false);
            break;
        case PST__PHASE_STEP:
            run_stages(w, true);
            break;
        }
    }
}

pst_status pst__worker_start(pst_worker *worker, pst_error *err)
{
    char name[16];
    snprintf(name, sizeof name, "pst-rank-%d", worker->rank);
    const pst_status status =
        pst__thread_start(&worker->thread, worker_main, worker, name, err);
    worker->started = status == PST_OK;
    return status;
}
