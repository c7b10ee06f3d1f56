/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenarios_pipeline.c - channels, workers and runs, in small programs of threads.
 *
 * The .c files are included, so that their static functions can be started as threads.
 */
#include "tests/stages/explore/atomic.h"

#include <string.h>

#include <penstock/registry.h>

#include "tests/stages/explore/scenarios.h"

#include "stages/pipeline.c"
#define has_ended run_has_ended /* worker.c has its own */
#include "stages/run.c"
#undef has_ended
#include "stages/worker.c"

enum { MOST_ITEMS = 8 };

/* Counters start two before they wrap. */
static const uint32_t near_wrap = UINT32_MAX - 1;

/* ---- ranks that send and receive, each with its part of the worker's loop -- */

enum { WIRED_RANKS = 3 };

/* What worker.c needs of a pipeline to send and receive: rank 2 gets messages from the
 * others over channels 0 and 1. */
typedef struct wires {
    pst_pipeline pipeline;
    pst_worker workers[WIRED_RANKS];
    pst_channel *channels[2];
    pst_channel channel[2];
    pst_program program;
    pst_footprint footprint;
    pst_rank_footprint rows[WIRED_RANKS]; /* empty: only the report looks there       */
    uint32_t payload[2][MOST_ITEMS];
    uint32_t taken;
    bool was_ended;
} wires;

static wires *wired;

static void wire(uint64_t spin_ns)
{
    wired = pst_allocate(&explore_env, sizeof *wired);
    pst_pipeline *p = &wired->pipeline;
    p->env = explore_env;
    p->ranks = p->workers_here = WIRED_RANKS;
    p->spin_ns = spin_ns;
    p->workers = wired->workers;
    p->run.program = &wired->program;
    p->run.iteration = 7;
    wired->footprint.rank = wired->rows;
    wired->program.footprint = &wired->footprint;
    wired->program.channels = wired->channels;
    for (int rank = 0; rank < WIRED_RANKS; rank++) {
        wired->workers[rank].pipeline = p;
        wired->workers[rank].rank = rank;
    }
    for (int i = 0; i < 2; i++) {
        pst_channel *channel = &wired->channel[i];
        wired->channels[i] = channel;
        channel->sender = i;
        channel->receiver = 2;
        pst__channel_deepen(channel, &explore_env, 2, 1);
        pst__ring_reset(&channel->ring, near_wrap);
    }
}

/* Rank `link` computes a microbatch and hands it over; its length tells which it is. */
static bool send_one(uint32_t link, uint32_t microbatch)
{
    uint32_t *payload = &wired->payload[link][microbatch];
    *payload = 100 * link + microbatch;
    const pst_step step = {.action = {.microbatch = microbatch}, .send = link};
    return hand_over(&wired->workers[link], &step, 1, PST__FORWARD, payload,
                     10 + microbatch);
}

/* False: the run was ended instead. */
static bool receive_one(uint32_t link, uint32_t microbatch)
{
    const pst_step step = {
        .action = {.microbatch = microbatch, .stage = 1, .op = PST_OP_FORWARD},
        .receive = link,
        .send = PST__NONE};
    pst_lengths lengths = {0, 0};
    if (!receive(&wired->workers[2], &step, &lengths))
        return false;
    if (lengths.input != 10 + microbatch)
        explore_fail("microbatch %u has %zu bytes", microbatch, lengths.input);
    const uint32_t payload = wired->payload[link][microbatch];
    if (payload != 100 * link + microbatch)
        explore_fail("microbatch %u holds %u", microbatch, payload);
    wired->taken++;
    return true;
}

static void *send_two(void *link)
{
    send_one((uint32_t)(uintptr_t)link, 0);
    send_one((uint32_t)(uintptr_t)link, 1);
    return NULL;
}

static void *send_first(void *link)
{
    send_one((uint32_t)(uintptr_t)link, 0);
    return NULL;
}

static void *receive_in_order(void *unused)
{
    receive_one(0, 0);
    receive_one(0, 1);
    return unused;
}

static void *receive_swapped(void *unused)
{
    receive_one(0, 1);
    receive_one(0, 0);
    return unused;
}

static void *receive_from_both(void *unused)
{
    receive_one(1, 0);
    receive_one(0, 0);
    return unused;
}

static void *receive_three(void *unused)
{
    receive_one(0, 1);
    receive_one(1, 0);
    receive_one(0, 0);
    return unused;
}

static void *receive_or_end(void *unused)
{
    wired->was_ended = !receive_one(0, 0);
    return unused;
}

static void *receive_both_or_end(void *unused)
{
    wired->was_ended = !receive_one(1, 0) || !receive_one(0, 0);
    return unused;
}

static void *cancel(void *unused)
{
    pst_pipeline_cancel(&wired->pipeline);
    return unused;
}

/* A worker that finds a fault of its own. */
static void *fail_one(void *unused)
{
    pst_worker *w = &wired->workers[1];
    w->error.status = PST_ECALLBACK; /* here, where the write is seen */
    fail(w);
    return unused;
}

static void check_taken(uint32_t count)
{
    if (wired->taken != count)
        explore_fail("%u of %u messages were taken", wired->taken, count);
}

static void check_two_taken(void)
{
    check_taken(2);
}

static void check_three_taken(void)
{
    check_taken(3);
}

static void check_taken_or_ended(void)
{
    if ((wired->taken == 1) == wired->was_ended)
        explore_fail("a message was neither taken nor given up");
}

static void check_both_taken_or_ended(void)
{
    if ((wired->taken == 2) == wired->was_ended)
        explore_fail("a message was neither taken nor given up");
}

static void one_sender(void)
{
    wire(0);
    explore_start(send_two, (void *)(uintptr_t)0);
    explore_start(receive_in_order, NULL);
}

static void one_sender_spinning(void)
{
    wire(1000);
    explore_start(send_first, (void *)(uintptr_t)0);
    explore_start(receive_or_end, NULL);
}

static void keys_out_of_order(void)
{
    wire(0);
    explore_start(send_two, (void *)(uintptr_t)0);
    explore_start(receive_swapped, NULL);
}

static void two_senders(void)
{
    wire(0);
    explore_start(send_first, (void *)(uintptr_t)0);
    explore_start(send_first, (void *)(uintptr_t)1);
    explore_start(receive_from_both, NULL);
}

static void two_senders_of_three(void)
{
    wire(0);
    explore_start(send_two, (void *)(uintptr_t)0);
    explore_start(send_first, (void *)(uintptr_t)1);
    explore_start(receive_three, NULL);
}

static void two_senders_spinning(void)
{
    wire(1000);
    explore_start(send_first, (void *)(uintptr_t)0);
    explore_start(send_first, (void *)(uintptr_t)1);
    explore_start(receive_from_both, NULL);
}

static void two_senders_cancelled(void)
{
    wire(0);
    explore_start(send_first, (void *)(uintptr_t)0);
    explore_start(send_first, (void *)(uintptr_t)1);
    explore_start(cancel, NULL);
    explore_start(receive_both_or_end, NULL);
}

static void cancelled_while_waiting(void)
{
    wire(0);
    explore_start(cancel, NULL);
    explore_start(receive_or_end, NULL);
}

static void cancelled_while_spinning(void)
{
    wire(1000);
    explore_start(cancel, NULL);
    explore_start(receive_or_end, NULL);
}

static void cancelled_or_sent(void)
{
    wire(0);
    explore_start(send_first, (void *)(uintptr_t)0);
    explore_start(cancel, NULL);
    explore_start(receive_or_end, NULL);
}

/* Two reasons at once: the first counts, and every waiter is woken. */
static void failed_and_cancelled(void)
{
    wire(0);
    explore_start(fail_one, NULL);
    explore_start(cancel, NULL);
    explore_start(receive_or_end, NULL);
}

/* No worker comes back from this phase, as if all were in callbacks: what the caller
 * tells of its end does not wait for them. */
static void *run_without_return(void *unused)
{
    pst_pipeline *p = &wired->pipeline;
    p->options.watchdog_seconds = -1;
    pst_error err = PST_ERROR_INIT;
    if (run_phase(p, PST__PHASE_ACTIONS, &err) != PST_ECALLBACK || !p->broken)
        explore_fail("a phase that nobody finishes ends well");
    return unused;
}

static void *fail_other(void *unused)
{
    pst_worker *w = &wired->workers[0];
    w->error.status = PST_ECALLBACK;
    fail(w);
    return unused;
}

static void cancelled_in_callbacks(void)
{
    wire(0);
    explore_start(cancel, NULL);
    explore_start(run_without_return, NULL);
}

static void failed_in_callbacks(void)
{
    wire(0);
    explore_start(fail_one, NULL);
    explore_start(fail_other, NULL);
    explore_start(run_without_return, NULL);
}

static void check_ended(void)
{
    check_taken_or_ended();
    if (!wired->was_ended)
        explore_fail("a run that was ended goes on");
}

/* ---- a channel that is sent what its receiver does not expect ------------- */

static void *send_of_other_iteration(void *unused)
{
    wired->payload[0][0] = 1;
    const pst_message message = {
        .microbatch = 0, .stage = 1, .iteration = 6, .data = &wired->payload[0][0]};
    pst__channel_send(&wired->channel[0], &message);
    pst__doorbell_ring(&wired->workers[2].doorbell, 0);
    return unused;
}

static void check_refused(void)
{
    check_ended();
    const pst_error *err = &wired->workers[2].error;
    if (err->status != PST_ESCHEDULE ||
        atomic_load_explicit(&wired->pipeline.failed, memory_order_relaxed) != 3)
        explore_fail("a message of another iteration was not refused");
}

static void message_of_other_iteration(void)
{
    wire(0);
    explore_start(send_of_other_iteration, NULL);
    explore_start(receive_or_end, NULL);
}

/* ---- whole pipelines: workers, phases, the caller ------------------------- */

/* A stage on each rank. The first makes a number from the iteration, the second looks
 * at it; the caller looks at what all have counted. */
typedef struct pipe_play {
    pst_pipeline *pipeline;
    pst_stage stages[2];
    int program;
    int calls[2];
    bool fails;
    pst_status statuses[3];
} pipe_play;

static pipe_play *piped;

static pst_status pipe_forward(void *self, pst_work *work, pst_error *err)
{
    pipe_play *pipe = self;
    pipe->calls[work->stage]++;
    if (work->output)
        *(int64_t *)work->output = work->iteration;
    if (work->input && *(const int64_t *)work->input != work->iteration)
        explore_fail("iteration %d finds another one in its buffer",
                     (int)work->iteration);
    const bool fails = pipe->fails && !work->output; /* the last stage */
    return fails ? pst_error_set(err, PST_ECALLBACK, "no") : PST_OK;
}

static pst_status pipe_backward(void *self, pst_work *work, pst_error *err)
{
    (void)self;
    (void)err;
    if (work->input_grad)
        *(int64_t *)work->input_grad = -work->iteration;
    if (work->output_grad && *(const int64_t *)work->output_grad != -work->iteration)
        explore_fail("iteration %d finds another gradient in its buffer",
                     (int)work->iteration);
    return PST_OK;
}

/* One microbatch forward, or forward and back. */
static pst_status load_list(pst_pipeline *p, pst_op last, int *program)
{
    pst_schedule_builder *builder;
    pst_schedule *schedule;
    pst_status status =
        pst_schedule_builder_create(NULL, p->ranks, p->ranks, 1, &builder, NULL);
    for (int rank = 0; rank < p->ranks; rank++)
        for (int op = 0; status == PST_OK && op <= (int)last; op++)
            status = pst_schedule_builder_append(
                builder, rank, (pst_action){.stage = (uint16_t)rank, .op = (uint8_t)op},
                NULL);
    if (status == PST_OK)
        status = pst_schedule_builder_finish(builder, "one", NULL, &schedule, NULL);
    if (status != PST_OK)
        return status;
    status = pst_pipeline_load(p, schedule, program, NULL);
    pst_schedule_destroy(schedule);
    return status;
}

/* pst_pipeline_create() without threads. */
static void pipe_up(int ranks, pst_op last, uint64_t spin_ns)
{
    static const int rank_of_stage[] = {0, 1};
    static const pst_pipeline_options options = {.bind = PST_BIND_NONE,
                                                 .watchdog_seconds = -1};
    piped = pst_allocate(&explore_env, sizeof *piped);
    pst_pipeline *p = pst_allocate(&explore_env, sizeof *p);
    piped->pipeline = p;
    for (int stage = 0; stage < ranks; stage++)
        piped->stages[stage] = (pst_stage){
            .self = piped, .forward = pipe_forward, .backward_input = pipe_backward};
    if (ranks == 2)
        piped->stages[0].output_bytes = piped->stages[1].input_bytes = sizeof(int64_t);
    p->env = explore_env;
    p->ranks = p->workers_here = p->stage_count = ranks;
    p->spin_ns = spin_ns;
    pst_status status = copy_arguments(p, piped->stages, rank_of_stage, &options, NULL);
    for (int rank = 0; status == PST_OK && rank < ranks; rank++)
        status = place_rank(p, rank, NULL);
    if (status == PST_OK)
        status = load_list(p, last, &piped->program);
    if (status == PST_OK) /* for weaker orders too, which may look early */
        status = set_up(p, piped->program, 0, 0, NULL);
    if (status != PST_OK)
        explore_fail("a pipeline cannot be set up: %s", pst_status_text(status));
}

/* pst_pipeline_create() but for the wait at its end, which only a thread can. */
static void pipe_with_workers(int ranks, uint64_t spin_ns)
{
    pipe_up(ranks, PST_OP_FORWARD, spin_ns);
    for (int rank = 0; rank < ranks; rank++)
        pst__worker_start(&piped->pipeline->workers[rank], NULL);
}

/* What the workers have found out about themselves is read when all are idle. */
static void *stop_at_once(void *unused)
{
    pst_pipeline *p = piped->pipeline;
    pst__pipeline_wait_idle(p);
    for (int rank = 0; rank < p->ranks; rank++) {
        pst_worker_info info;
        pst_pipeline_worker(p, rank, &info);
    }
    stop_workers(p);
    return unused;
}

/* One phase of both ranks. */
static void *reduce_once(void *unused)
{
    pst_pipeline *p = piped->pipeline;
    pst__pipeline_wait_idle(p);
    if (run_phase(p, PST__PHASE_REDUCE, NULL) != PST_OK)
        explore_fail("a phase does not end well");
    for (int rank = 0; rank < 2; rank++)
        if (piped->calls[rank] != 1)
            explore_fail("rank %d was called %d times", rank, piped->calls[rank]);
    stop_workers(p);
    return unused;
}

static pst_status pipe_reduce(void *self, pst_work *work, pst_error *err)
{
    pipe_play *pipe = self;
    (void)err;
    pipe->calls[work->stage]++;
    return PST_OK;
}

/* One iteration after the other; what the workers left is read after each. */
static void run_iterations(int count)
{
    pst_pipeline *p = piped->pipeline;
    pst__pipeline_wait_idle(p);
    for (int i = 0; i < count; i++) {
        piped->statuses[i] = pst_pipeline_run(p, piped->program, 0, 1 + i, NULL);
        piped->fails = false;
        size_t events;
        const pst_trace_event *event = pst_pipeline_trace(p, p->ranks - 1, &events);
        if (piped->statuses[i] == PST_OK &&
            (piped->calls[p->ranks - 1] != 1 + i || events != 1 ||
             event->iteration != (uint32_t)(1 + i)))
            explore_fail("iteration %d leaves %d calls and %zu events", 1 + i,
                         piped->calls[p->ranks - 1], events);
    }
    stop_workers(p);
}

static void *run_once(void *unused)
{
    run_iterations(1);
    return unused;
}

static void *run_twice(void *unused)
{
    run_iterations(2);
    return unused;
}

static void *run_thrice(void *unused)
{
    run_iterations(3);
    return unused;
}

static void pipe_stops(void)
{
    pipe_with_workers(2, 0);
    explore_start(stop_at_once, NULL);
}

static void pipe_spins_and_stops(void)
{
    pipe_with_workers(1, 1000);
    explore_start(stop_at_once, NULL);
}

static void pair_spins_and_stops(void)
{
    pipe_with_workers(2, 1000);
    explore_start(stop_at_once, NULL);
}

static void rank_runs(void)
{
    pipe_with_workers(1, 0);
    explore_start(run_once, NULL);
}

static void rank_runs_twice(void)
{
    pipe_with_workers(1, 0);
    explore_start(run_twice, NULL);
}

static void rank_fails(void)
{
    pipe_with_workers(1, 0);
    piped->fails = true;
    explore_start(run_once, NULL);
}

static void rank_fails_then_runs(void)
{
    pipe_with_workers(1, 0);
    piped->fails = true;
    explore_start(run_twice, NULL);
}

static void *cancel_run(void *unused)
{
    pst_pipeline_cancel(piped->pipeline);
    return unused;
}

static void rank_is_cancelled(void)
{
    pipe_with_workers(1, 0);
    explore_start(run_once, NULL);
    explore_start(cancel_run, NULL);
}

static void rank_runs_thrice(void)
{
    pipe_with_workers(1, 0);
    explore_start(run_thrice, NULL);
}

static void ranks_reduce(void)
{
    pipe_with_workers(2, 0);
    for (int stage = 0; stage < 2; stage++)
        piped->pipeline->stages[stage].stage.reduce = pipe_reduce;
    explore_start(reduce_once, NULL);
}

static void *act(void *rank)
{
    run_actions(&piped->pipeline->workers[(uintptr_t)rank]);
    return NULL;
}

/* The lists alone, without phases. */
static void ranks_act(void)
{
    pipe_up(2, PST_OP_BACKWARD, 0);
    explore_start(act, (void *)(uintptr_t)0);
    explore_start(act, (void *)(uintptr_t)1);
}

static void second_rank_fails(void)
{
    ranks_act();
    piped->fails = true;
}

static void check_acted(void)
{
    for (int rank = 0; rank < 2; rank++)
        if (piped->pipeline->workers[rank].event_count != 2)
            explore_fail("rank %d has not ended its list", rank);
}

static void check_second_failed(void)
{
    const pst_pipeline *p = piped->pipeline;
    if (p->workers[0].event_count != 1 || p->workers[1].event_count != 0 ||
        p->workers[1].error.status != PST_ECALLBACK)
        explore_fail("the second rank has not failed");
}

static void check_statuses(pst_status first, pst_status second)
{
    if (piped->statuses[0] != first || piped->statuses[1] != second)
        explore_fail("iterations end with status %d and %d", (int)piped->statuses[0],
                     (int)piped->statuses[1]);
}

static void check_runs(void)
{
    check_statuses(PST_OK, PST_OK);
}

static void check_fails(void)
{
    check_statuses(PST_ECALLBACK, PST_OK);
}

static void check_ok_or_cancelled(void)
{
    if (piped->statuses[0] != PST_OK && piped->statuses[0] != PST_ECALLBACK)
        explore_fail("a cancelled run ends with status %d", (int)piped->statuses[0]);
}

/* ---- tied stages: a slice of the sum on each rank -------------------------- */

/* As pipe_up(), with two floats that both stages have a copy of. */
static void tie_up_two(uint64_t spin_ns)
{
    static const pst_tie_member members[] = {{0, 0}, {1, 0}};
    static const pst_tie tie = {.members = members, .member_count = 2, .count = 2};
    pipe_up(2, PST_OP_BACKWARD, spin_ns);
    pst_pipeline *p = piped->pipeline;
    for (int stage = 0; stage < 2; stage++)
        p->stages[stage].gradients = pst_allocate_array(&explore_env, 2, sizeof(float));
    p->options.ties = &tie;
    p->options.tie_count = 1;
    if (pst__ties_create(p, &p->ties, NULL) != PST_OK)
        explore_fail("stages cannot be tied");
}

/* The end of a list: the last W, then the sum. Not both floats of a stage are alike. */
static void *weigh_and_sum(void *number)
{
    const int rank = (int)(uintptr_t)number;
    pst_worker *w = &piped->pipeline->workers[rank];
    float *gradients = piped->pipeline->stages[rank].gradients;
    pst__tie_begin(w);
    for (int k = 0; k < 2; k++)
        gradients[k] = (float)(1 + rank + 4 * k);
    pst__tie_count_weight(w, rank);
    finish_ties(w, 0);
    return NULL;
}

static void *cancel_ties(void *unused)
{
    pst_pipeline_cancel(piped->pipeline);
    return unused;
}

static void ties(void)
{
    tie_up_two(0);
    explore_start(weigh_and_sum, (void *)(uintptr_t)0);
    explore_start(weigh_and_sum, (void *)(uintptr_t)1);
}

static void ties_spinning(void)
{
    tie_up_two(1000);
    explore_start(weigh_and_sum, (void *)(uintptr_t)0);
    explore_start(weigh_and_sum, (void *)(uintptr_t)1);
}

/* Rank 1 never comes to its W. */
static void ties_cancelled(void)
{
    tie_up_two(0);
    explore_start(weigh_and_sum, (void *)(uintptr_t)0);
    explore_start(cancel_ties, NULL);
}

static void check_summed(void)
{
    for (int stage = 0; stage < 2; stage++) {
        const float *gradients = piped->pipeline->stages[stage].gradients;
        if (gradients[0] != 3 || gradients[1] != 11)
            explore_fail("stage %d has the sums %g and %g", stage, (double)gradients[0],
                         (double)gradients[1]);
    }
}

static void check_not_summed(void)
{
    if (piped->pipeline->stages[0].gradients[0] != 1)
        explore_fail("a sum was made before all had their parts");
}

/* ---- all of them ---------------------------------------------------------------- */

static const explore_scenario scenarios[] = {
    {"one sender, in order", one_sender, check_two_taken, 1, EXPLORE_SMALL},
    {"one sender, keys swapped", keys_out_of_order, check_two_taken, 1, EXPLORE_SMALL},
    {"one sender, receiver spins", one_sender_spinning, check_taken_or_ended, 0,
     EXPLORE_SMALL},
    {"two senders", two_senders, check_two_taken, 0, EXPLORE_SMALL},
    {"two senders, receiver spins", two_senders_spinning, check_two_taken, 0,
     EXPLORE_SMALL},
    {"two senders, 3 messages", two_senders_of_three, check_three_taken, 0,
     EXPLORE_LARGE},
    {"two senders, woken for nothing", two_senders, check_two_taken, 2, EXPLORE_LARGE},
    {"another iteration's message", message_of_other_iteration, check_refused, 0,
     EXPLORE_SMALL},
    {"cancelled while waiting", cancelled_while_waiting, check_ended, 1, EXPLORE_SMALL},
    {"cancelled while spinning", cancelled_while_spinning, check_ended, 0,
     EXPLORE_SMALL},
    {"cancelled or sent", cancelled_or_sent, check_taken_or_ended, 0, EXPLORE_SMALL},
    {"failed and cancelled", failed_and_cancelled, check_ended, 0, EXPLORE_SMALL},
    {"cancelled in callbacks", cancelled_in_callbacks, NULL, 0, EXPLORE_SMALL},
    {"failed in callbacks", failed_in_callbacks, NULL, 0, EXPLORE_SMALL},
    {"two ranks' lists", ranks_act, check_acted, 0, EXPLORE_SMALL},
    {"second rank fails", second_rank_fails, check_second_failed, 0, EXPLORE_SMALL},
    {"tied stages", ties, check_summed, 0, EXPLORE_SMALL},
    {"tied stages, spinning", ties_spinning, check_summed, 0, EXPLORE_SMALL},
    {"tied stages, woken for nothing", ties, check_summed, 1, EXPLORE_LARGE},
    {"tied stages, cancelled", ties_cancelled, check_not_summed, 0, EXPLORE_SMALL},
    {"workers start and stop", pipe_stops, NULL, 0, EXPLORE_SMALL},
    {"worker spins and stops", pipe_spins_and_stops, NULL, 0, EXPLORE_SMALL},
    {"workers spin and stop", pair_spins_and_stops, NULL, 0, EXPLORE_LARGE},
    {"rank runs", rank_runs, check_runs, 0, EXPLORE_SMALL},
    {"rank fails", rank_fails, check_fails, 0, EXPLORE_SMALL},
    {"rank is cancelled", rank_is_cancelled, check_ok_or_cancelled, 0, EXPLORE_LONG},
    {"rank runs twice", rank_runs_twice, check_runs, 0, EXPLORE_LARGE},
    {"rank fails, then runs", rank_fails_then_runs, check_fails, 0, EXPLORE_LONG},
    {"two ranks reduce", ranks_reduce, NULL, 0, EXPLORE_LONG},
    {"workers woken for nothing", pipe_stops, NULL, 2, EXPLORE_LARGE},
    {"two senders or cancelled", two_senders_cancelled, check_both_taken_or_ended, 0,
     EXPLORE_LARGE},
    {"two senders, woken, 3 messages", two_senders_of_three, check_three_taken, 1,
     EXPLORE_LONG},
    {"rank runs, woken for nothing", rank_runs_twice, check_runs, 1, EXPLORE_LONG},
    {"rank runs three times", rank_runs_thrice, check_runs, 0, EXPLORE_LONG},
};

explore_scenarios explore_pipeline_scenarios(void)
{
    return (explore_scenarios){scenarios, sizeof scenarios / sizeof *scenarios};
}
