/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - one iteration, as its caller sees it: phases, watchdog, faults. */
#include "stages/run.h"

#include <stdio.h>

#include "stages/crossing.h"

/* For workers to come back after a fault: those between callbacks do so at once. */
enum { GRACE_NS = 1500000000 };

/* At most so long the watchdog sleeps between two looks. */
enum { NAP_NS = 100000000 };

void pst__pipeline_end(pst_pipeline *pipeline, uint32_t why)
{
    uint32_t goes_on = PST__GOES_ON;
    /* seq_cst: S1 of doorbell.h, with this flag in place of the count. relaxed: it has
     * ended before, and who ended it wakes. */
    if (!atomic_compare_exchange_strong_explicit(&pipeline->ended, &goes_on, why,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed))
        return;
    for (int rank = 0; rank < pipeline->ranks; rank++)
        pst__doorbell_alarm(&pipeline->workers[rank].doorbell);
    /* release: pairs with the acquire of all_finished(), after which the caller looks
     * at `ended`. It changes the word, so that a caller about to sleep does not. */
    atomic_fetch_or_explicit(&pipeline->finished, PST__ENDED_EARLY,
                             memory_order_release);
    pst__futex_wake(&pipeline->finished, true);
}

bool pst__pipeline_claim_fault(pst_pipeline *pipeline, uint32_t who)
{
    uint32_t nobody = 0;
    /* release: pairs with the acquire in find_fault(), so that the error of `who`, who
     * may not have finished, is read whole. */
    return atomic_compare_exchange_strong_explicit(
        &pipeline->failed, &nobody, who, memory_order_release, memory_order_relaxed);
}

void pst__pipeline_cut(pst_pipeline *pipeline)
{
    if (pst__pipeline_claim_fault(pipeline, PST__TRANSPORT))
        pst__pipeline_write_report(pipeline, -1);
    pst__pipeline_end(pipeline, PST__CUT_OFF);
}

void pst_pipeline_cancel(pst_pipeline *pipeline)
{
    pst__pipeline_end(pipeline, PST__CANCELLED);
}

/* All workers have finished the phase; what they wrote is seen. */
static bool all_finished(pst_pipeline *p, uint32_t *finished)
{
    /* acquire: pairs with finish_phase() of each worker. */
    *finished = atomic_load_explicit(&p->finished, memory_order_acquire);
    return *finished % PST__ENDED_EARLY == (uint32_t)p->workers_here;
}

void pst__pipeline_wait_idle(pst_pipeline *pipeline)
{
    uint32_t finished;
    while (!all_finished(pipeline, &finished))
        pst__futex_wait(&pipeline->finished, finished, 0);
}

/* Changes whenever any worker gets on. */
static uint64_t movement(pst_pipeline *p)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        /* relaxed: any value will do, as long as it gets newer. */
        sum = sum * 31 +
              atomic_load_explicit(&p->workers[rank].position, memory_order_relaxed);
        sum = sum * 31 +
              atomic_load_explicit(&p->workers[rank].state, memory_order_relaxed);
    }
    return sum;
}

static bool has_ended(pst_pipeline *p)
{
    /* acquire, though nothing is lost with relaxed (tests/stages/test_explore.c):
     * find_fault() looks again. */
    return atomic_load_explicit(&p->ended, memory_order_acquire) != PST__GOES_ON;
}

/* Until all have finished, or the run is ended early. False: nothing moved for longer
 * than the limit. */
static bool wait_for_workers(pst_pipeline *p)
{
    const double seconds = p->options.watchdog_seconds;
    const bool watched = seconds > 0 && seconds <= 1e9;
    const uint64_t limit = watched ? (uint64_t)(seconds * 1e9) : 0;
    uint64_t patience = limit;
    const uint64_t nap = !watched ? 0 : limit / 16 < NAP_NS ? limit / 16 + 1 : NAP_NS;
    uint64_t moved_at = pst__now_ns();
    uint64_t last = watched ? movement(p) : 0;
    uint32_t finished;
    while (!all_finished(p, &finished) && !has_ended(p)) {
        pst__futex_wait(&p->finished, finished, nap);
        if (!watched)
            continue;
        const uint64_t now = pst__now_ns();
        const uint64_t present = movement(p);
        if (present != last) {
            last = present;
            moved_at = now;
            patience = limit;
        } else if (now - moved_at >= patience) {
            /* Whoever has the rank to blame finds out first, and then tells. */
            if (patience > limit || pst__is_here(p, pst__pipeline_culprit(p)))
                return all_finished(p, &finished);
            patience = limit + limit / 2;
        }
    }
    return true;
}

/* False: a worker is still in a callback. */
static bool wait_for_return(pst_pipeline *p)
{
    const uint64_t start = pst__now_ns();
    uint32_t finished;
    while (!all_finished(p, &finished)) {
        const uint64_t waited = pst__now_ns() - start;
        if (waited >= GRACE_NS)
            return false;
        pst__futex_wait(&p->finished, finished, GRACE_NS - waited);
    }
    return true;
}

/* How the error of a run ends: nothing, or what could not be stopped. */
static const char *abandoned_text(const pst_pipeline *p, char *text, size_t size)
{
    size_t bytes;
    const int workers = pst_pipeline_abandoned(p, &bytes);
    text[0] = '\0';
    if (workers > 0)
        snprintf(text, size,
                 "; %d thread%s in a callback that does not return %s abandoned, and "
                 "%zu bytes of memory",
                 workers, workers == 1 ? "" : "s", workers == 1 ? "is" : "are", bytes);
    return text;
}

/* The other processes need not wait until the workers of this one are back. */
static void tell_others(const pst_transport *t, const char *text)
{
    char whole[sizeof((pst_error *)0)->text + 128];
    if (!t)
        return;
    snprintf(whole, sizeof whole, "%s: %s", t->where(t->self, t->process), text);
    t->fail(t->self, whole);
}

/* "rank 2 is in ...", or where that rank is if not here; returns text. */
static const char *stall_text(const pst_pipeline *p, int culprit, char *text,
                              size_t size)
{
    char place[192], waiters[64] = "";
    const pst_transport *t = p->options.transport;
    const double limit = p->options.watchdog_seconds;
    const int waiting = pst__pipeline_waiters(p, culprit);
    if (waiting > 0)
        snprintf(waiters, sizeof waiters, "; %d other rank%s for it", waiting,
                 waiting == 1 ? " waits" : "s wait");
    if (pst__is_here(p, culprit))
        snprintf(text, size,
                 "rank %d is in %s, and no action has ended for %g s, the watchdog's "
                 "limit%s",
                 culprit, pst__pipeline_place_text(p, culprit, place, sizeof place),
                 limit, waiters);
    else
        snprintf(text, size,
                 "nothing has come from rank %d (%s) for %g s, the watchdog's limit%s",
                 culprit, t->where(t->self, p->process_of_rank[culprit]), limit,
                 waiters);
    return text;
}

/* The list does not move: say who is to blame, then bring the workers back. */
static pst_status time_out(pst_pipeline *p, pst_error *err)
{
    char text[512], rest[160];
    const int culprit = pst__pipeline_culprit(p);
    stall_text(p, culprit, text, sizeof text);
    pst__pipeline_write_report(p, culprit);
    tell_others(p->options.transport, text);
    pst__pipeline_end(p, PST__TIMED_OUT);
    p->broken = !wait_for_return(p);
    return pst_error_set(err, PST_ETIMEOUT, "%s%s", text,
                         abandoned_text(p, rest, sizeof rest));
}

pst_status pst__pipeline_cut_off(const pst_pipeline *pipeline, pst_error *err)
{
    const pst_transport *t = pipeline->options.transport;
    const char *why = t->failure(t->self);
    return pst_error_set(err, PST_EPEER, "%s",
                         why ? why : "a message between processes was not carried out");
}

static pst_status find_fault(pst_pipeline *p, pst_error *err)
{
    char rest[160];
    /* acquire, though nothing is lost with relaxed (tests/stages/test_explore.c): who
     * failed has finished, and of a cancellation only the word is read. */
    const uint32_t why = atomic_load_explicit(&p->ended, memory_order_acquire);
    if (why == PST__GOES_ON)
        return PST_OK;
    /* acquire: pairs with the release in pst__pipeline_claim_fault(). */
    const uint32_t failed = atomic_load_explicit(&p->failed, memory_order_acquire);
    /* A rank that fails after that is not heard. */
    const bool cut = why == PST__CUT_OFF || failed == PST__TRANSPORT;
    const pst_error *own =
        why == PST__FAILED && !cut ? &p->workers[failed - 1].error : NULL;
    if (own)
        tell_others(p->options.transport, own->text);
    p->broken = !wait_for_return(p);
    abandoned_text(p, rest, sizeof rest);
    if (cut)
        return pst__pipeline_cut_off(p, err);
    if (why == PST__CANCELLED)
        return pst_error_set(err, PST_ECALLBACK, "the run was cancelled%s", rest);
    return pst_error_set(err, own->status, "%s%s", own->text, rest);
}

static pst_status run_phase(pst_pipeline *p, pst_phase phase, pst_error *err)
{
    p->run.phase = phase;
    /* acq_rel, though nothing is lost with relaxed (tests/stages/test_explore.c): where
     * a cancellation has set its bit, this goes on its release sequence, and
     * all_finished() sees that `ended` is set; the next line publishes the 0. */
    atomic_exchange_explicit(&p->finished, 0, memory_order_acq_rel);
    /* release: pairs with the acquire in pst__wait_change(), after which workers read
     * `run` and everything else that was set up. */
    atomic_fetch_add_explicit(&p->start, 1, memory_order_release);
    pst__futex_wake(&p->start, true);
    if (!wait_for_workers(p)) {
        if (pst__pipeline_claim_fault(p, PST__WATCHDOG))
            return time_out(p, err);
        pst__pipeline_end(p, PST__FAILED); /* as a rank does that failed just now */
    }
    return find_fault(p, err);
}

/* After a run that was ended early: nothing of it is left. */
static void clean(pst_pipeline *p)
{
    /* relaxed throughout: the start of a phase publishes it. */
    atomic_store_explicit(&p->failed, 0, memory_order_relaxed);
    for (size_t i = 0; i < p->channel_count; i++)
        pst__channel_reset(p->channels[i]);
    for (int rank = 0; rank < p->ranks; rank++) {
        p->workers[rank].error = (pst_error)PST_ERROR_INIT;
        pst__doorbell_disarm(&p->workers[rank].doorbell);
    }
    p->dirty = false;
}

static bool any_stage_has(const pst_pipeline *p, bool step)
{
    for (int i = 0; i < p->stage_count; i++)
        if (pst__is_here(p, p->stages[i].rank) &&
            (step ? p->stages[i].stage.step : p->stages[i].stage.reduce))
            return true;
    return false;
}

static pst_status finish_training(pst_pipeline *p, pst_error *err)
{
    pst_status status = PST_OK;
    int step = 1;
    if (any_stage_has(p, false))
        status = run_phase(p, PST__PHASE_REDUCE, err);
    if (status == PST_OK && p->options.combine)
        status =
            p->options.combine(p->options.combine_user, p->run.iteration, &step, err);
    if (status == PST_OK && step && any_stage_has(p, true))
        status = run_phase(p, PST__PHASE_STEP, err);
    return status;
}

static pst_status set_up(pst_pipeline *p, int program, int microbatches,
                         int64_t iteration, pst_error *err)
{
    if (p->broken)
        return pst_error_set(err, PST_ETIMEOUT,
                             "a stage's callback has not returned from an earlier run; "
                             "this pipeline can only be destroyed");
    if (program < 0 || program >= p->program_count)
        return pst_error_set(err, PST_EINVAL, "program %d; %d are loaded, from 0",
                             program, p->program_count);
    const pst_footprint *f = p->programs[program].footprint;
    if (microbatches < 0 || microbatches > f->microbatches)
        return pst_error_set(err, PST_EINVAL, "%d microbatches; the schedule has %d",
                             microbatches, f->microbatches);
    if (microbatches > 0 && microbatches < f->microbatches && f->training)
        return pst_error_set(err, PST_EINVAL,
                             "%d of %d microbatches; a schedule with backward actions "
                             "runs with all of them",
                             microbatches, f->microbatches);
    if (p->dirty)
        clean(p);
    if (p->options.transport &&
        p->options.transport->failure(p->options.transport->self))
        return pst__pipeline_cut_off(p, err);
    p->report[0] = '\0';
    p->run.program = &p->programs[program];
    p->run.microbatches = (uint32_t)(microbatches ? microbatches : f->microbatches);
    p->run.iteration = iteration;
    p->run.number++;
    for (int rank = 0; rank < p->ranks; rank++)
        if (!pst__is_here(p, rank)) /* what share_trace() fetched last */
            p->workers[rank].event_count = 0;
    pst__crossings_begin(p);
    if (f->training && f->updates == 0)
        pst__tie_remote_begin(p);
    return PST_OK;
}

static pst_status run(pst_pipeline *pipeline, int program, int microbatches,
                      int64_t iteration, pst_error *err)
{
    /* relaxed: the start of a phase publishes it. */
    atomic_store_explicit(&pipeline->ended, PST__GOES_ON, memory_order_relaxed);
    pst_status status = set_up(pipeline, program, microbatches, iteration, err);
    if (status != PST_OK)
        return status;
    status = run_phase(pipeline, PST__PHASE_ACTIONS, err);
    const pst_footprint *f = pipeline->run.program->footprint;
    if (status == PST_OK && f->training && f->updates == 0)
        status = finish_training(pipeline, err);
    if (status != PST_OK)
        pipeline->dirty = true;
    return status;
}

pst_status pst_pipeline_run(pst_pipeline *pipeline, int program, int microbatches,
                            int64_t iteration, pst_error *err)
{
    pst_error own = PST_ERROR_INIT;
    const pst_status status = run(pipeline, program, microbatches, iteration, &own);
    return pst__pipeline_tell(pipeline->options.transport, status, &own, err);
}

pst_status pst__pipeline_tell(const pst_transport *transport, pst_status status,
                              const pst_error *own, pst_error *err)
{
    if (status == PST_OK)
        return PST_OK;
    if (status != PST_EPEER)
        tell_others(transport, own->text);
    return pst_error_set(err, status, "%s", own->text);
}
