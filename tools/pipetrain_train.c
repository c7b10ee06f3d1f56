/* SPDX-License-Identifier: BSD-3-Clause */
/* pipetrain_train.c - the main job: read a text, train on it, show what came of it. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/checkpoint.h>
#include <penstock/file.h>
#include <penstock/text.h>
#include <penstock/trainer.h>

#include "tools/binding.h"
#include "tools/crash.h"
#include "tools/hash.h"
#include "tools/history.h"
#include "tools/pipetrain.h"
#include "tools/processes.h"
#include "tools/progress.h"
#include "tools/say.h"
#include "tools/train_faults.h"
#include "tools/train_log.h"
#include "tools/train_picture.h"

/* Windows of the held-out part that are evaluated in one call. */
enum { EVAL_WINDOWS = 256 };

/* Everything one run holds; zero where it is not there yet. */
typedef struct run {
    const pipetrain_settings *settings;
    processes processes;
    pst_text *text;
    pst_schedule *schedule;
    pst_trainer *trainer;
    pst_history *history;
    train_log *log;
    train_faults faults;
    int32_t *inputs; /* [max(B, EVAL_WINDOWS)][T]                              */
    int32_t *labels;
    int *shares;          /* [copies of the schedule]; NULL: equal ones        */
    pst_step_report last; /* of the newest step                                */
    double started;       /* seconds, as progress_clock()                      */
    int time_is_up;       /* of --time-limit                                   */
} run;

/* The number of the signal that asked for an end, 0: none. */
static volatile sig_atomic_t stop_signal;

static void ask_to_stop(int number)
{
    stop_signal = number;
}

/* SIGTERM and SIGINT end the run after the present step; a second one kills. */
static void catch_stop_signals(void)
{
    struct sigaction action = {.sa_handler = ask_to_stop,
                               .sa_flags = SA_RESTART | SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static const pst_env environment = {.log = train_faults_hear};

/* A file that will be written at the end can be; nothing is left of the trial. */
static pst_status try_target(const char *path, pst_error *err)
{
    pst_file_writer *writer;
    if (path == NULL)
        return PST_OK;
    const pst_status status = pst_file_create(&environment, path, &writer, err);
    if (status == PST_OK)
        pst_file_discard(writer);
    return status;
}

static pst_status try_targets(const run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    pst_status status = PST_OK;
    if (r->processes.leads)
        status = try_target(s->picture, err);
    if (status == PST_OK && r->processes.leads)
        status = try_target(s->trace, err);
    if (status == PST_OK && s->checkpoint != NULL && !s->resume)
        status = pst_checkpoint_prepare(&environment, s->checkpoint, err);
    return status;
}

/* "3,1": a whole number for each copy. */
static pst_status read_shares(run *r, pst_error *err)
{
    const char *text = r->settings->shares, *rest = text;
    const int copies = pst_schedule_data_parallel(r->schedule);
    if (text == NULL)
        return PST_OK;
    r->shares = calloc((size_t)copies, sizeof *r->shares);
    if (r->shares == NULL)
        return pst_error_no_memory(err, "shares", (size_t)copies * sizeof *r->shares);
    for (int i = 0; i < copies; i++) {
        char *end;
        const long share = strtol(rest, &end, 10);
        const int is_last = i + 1 == copies;
        if (end == rest || share < 1 || share > 1000000 || *end != (is_last ? 0 : ','))
            return pst_error_set(err, PST_EINVAL,
                                 "--shares '%s': %d whole number%s from 1 to 1000000%s "
                                 "would work, one for each copy of the pipeline "
                                 "(--data-parallel)",
                                 text, copies, copies == 1 ? "" : "s",
                                 copies == 1 ? "" : " with commas between them");
        r->shares[i] = (int)share;
        rest = end + 1;
    }
    return PST_OK;
}

/* What each process sees by itself. */
static pst_status open_inputs(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    pst_status status;
    if ((status =
             pst_text_open(&environment, s->data, s->val_fraction, s->model.context,
                           s->model.vocabulary, &r->text, err)) ||
        (status = pipetrain_schedule(s, &r->schedule, err)) ||
        (status = train_faults_check(&r->faults, r->schedule, err)) ||
        (status = processes_place(&r->processes, pst_schedule_ranks(r->schedule),
                                  s->workers, err)))
        return status;
    return read_shares(r, err);
}

static uint64_t hash_lists(const pst_schedule *schedule)
{
    uint64_t hash = HASH_START;
    for (int rank = 0; rank < pst_schedule_ranks(schedule); rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        hash = hash_bytes(hash, &count, sizeof count);
        hash = hash_bytes(hash, row, count * sizeof *row);
    }
    return hash;
}

/* The files of several hosts may differ behind one name. */
static pst_status compare_inputs(run *r, pst_error *err)
{
    char told[256] = "";
    if (r->processes.transport == NULL)
        return PST_OK;
    const size_t bytes = pst_text_train_bytes(r->text) + pst_text_val_bytes(r->text);
    snprintf(told, sizeof told,
             "a schedule of %d stages on %d ranks and %d microbatches, hash %016" PRIx64
             "\na text of %zu bytes, with hash %016" PRIx64 "\n",
             pst_schedule_stages(r->schedule), pst_schedule_ranks(r->schedule),
             pst_schedule_total_microbatches(r->schedule), hash_lists(r->schedule),
             bytes, hash_bytes(HASH_START, pst_text_bytes(r->text), bytes));
    return processes_compare_told(&r->processes, told, sizeof told, err);
}

static pst_status make_trainer(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    pst_trainer_options options = {.model = s->model,
                                   .optimizer = s->optimizer,
                                   .batch = s->batch,
                                   .eval_microbatch =
                                       (1024 + s->model.context - 1) / s->model.context,
                                   .schedule = r->schedule,
                                   .seed = s->seed,
                                   .pipeline = s->pipeline,
                                   .decorate = train_faults_decorate,
                                   .decorate_user = &r->faults,
                                   .shares = r->shares};
    options.pipeline.watchdog_seconds = s->watchdog_seconds;
    if (pst_schedule_updates(r->schedule) > 0 && !s->clip_given)
        options.optimizer.clip = 0;
    options.pipeline.transport = r->processes.transport;
    options.pipeline.process_of_rank = r->processes.process_of_rank;
    return pst_trainer_create(&environment, &options, &r->trainer, err);
}

static pst_status make_room(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    const pst_status status = history_create(r->schedule, &r->history, err);
    if (status != PST_OK)
        return status;
    size_t windows = (size_t)(s->batch > EVAL_WINDOWS ? s->batch : EVAL_WINDOWS);
    size_t tokens = windows * (size_t)s->model.context;
    r->inputs = calloc(tokens, sizeof *r->inputs);
    r->labels = calloc(tokens, sizeof *r->labels);
    if (r->inputs == NULL || r->labels == NULL)
        return pst_error_no_memory(err, "the batch", tokens * sizeof *r->inputs);
    return PST_OK;
}

static pst_status open_run(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    pst_status status = processes_join(&environment, &r->processes, err);
    if (status != PST_OK ||
        (status =
             processes_compare_told(&r->processes, s->told, sizeof s->told, err)) ||
        (status = processes_compare(&r->processes, s->allow_mixed, err)) ||
        (status = processes_agree(&r->processes, open_inputs(r, err), err)) ||
        (status = compare_inputs(r, err)) ||
        (status = processes_agree(&r->processes, make_trainer(r, err), err)))
        return status;
    crash_watch(pst_trainer_pipeline(r->trainer));
    if ((status = processes_agree(&r->processes, make_room(r, err), err)))
        return status;
    if (s->init != NULL &&
        (status = pst_trainer_load_weights(r->trainer, s->init, err)))
        return status;
    if (s->resume && (status = pst_trainer_resume(r->trainer, s->checkpoint, err)))
        return status;
    status = try_targets(r, err);
    if (status == PST_OK && s->log != NULL && r->processes.leads)
        status = train_log_open(s->log, s->resume, &r->log, err);
    return processes_agree(&r->processes, status, err);
}

static void close_run(run *r)
{
    train_log_close(r->log);
    history_destroy(r->history);
    crash_watch(NULL);
    pst_trainer_destroy(r->trainer);
    train_faults_close(&r->faults);
    pst_schedule_destroy(r->schedule);
    pst_text_close(r->text);
    free(r->shares);
    free(r->inputs);
    free(r->labels);
}

/* "processes 2: ranks 0 .. 1 on process 0 on node-a, ..." */
static void print_processes(const run *r)
{
    const pst_transport *t = r->processes.transport;
    if (t == NULL)
        return;
    const int ranks = pst_schedule_ranks(r->schedule);
    printf("processes %d, %s%s", t->processes, r->processes.launch.name(),
           r->processes.mixed ? ", not alike: the digest is of this mixture only" : "");
    for (int first = 0, end; first < ranks; first = end) {
        const int process = r->processes.process_of_rank[first];
        for (end = first; end < ranks && r->processes.process_of_rank[end] == process;)
            end++;
        printf("%s %d .. %d on %s", first == 0 ? ": ranks" : ",", first, end - 1,
               t->where(t->self, process));
    }
    printf("\n");
}

static void print_setting(const run *r)
{
    const pipetrain_settings *s = r->settings;
    if (s->quiet || !r->processes.leads)
        return;
    size_t tensors, parameters = 0;
    const pst_tensor *weights = pst_trainer_weights(r->trainer, &tensors);
    for (size_t i = 0; i < tensors; i++)
        parameters += weights[i].count;
    printf("data      %s: %zu bytes to train on, %zu held out\n", s->data,
           pst_text_train_bytes(r->text), pst_text_val_bytes(r->text));
    printf("model     gpt: %d layers, %d heads, width %d, context %d, vocabulary %d: "
           "%zu parameters\n",
           s->model.layers, s->model.heads, s->model.width, s->model.context,
           s->model.vocabulary, parameters);
    char slices[32] = "", copies[64] = "";
    if (pst_schedule_slices(r->schedule) > 1)
        snprintf(slices, sizeof slices, " of %d slices",
                 pst_schedule_slices(r->schedule));
    const int each = pst_schedule_data_parallel(r->schedule);
    if (each > 1)
        snprintf(copies, sizeof copies, "%d copies of %d stages, ", each,
                 pst_schedule_stages(r->schedule) / each);
    printf("pipeline  %s: %s%d stages on %d ranks, %d sequences in %d microbatches%s, "
           "%d CPU%s\n",
           pst_schedule_name(r->schedule), copies, pst_schedule_stages(r->schedule),
           pst_schedule_ranks(r->schedule), s->batch,
           pst_schedule_total_microbatches(r->schedule), slices, pst_cpu_budget(),
           pst_cpu_budget() == 1 ? "" : "s");
    print_processes(r);
    fflush(stdout);
}

/* Is this run to end early? Several processes learn of it together. */
static int stops(run *r)
{
    const int wanted = stop_signal != 0 || r->time_is_up;
    if (wanted)
        pst_trainer_ask_to_stop(r->trainer);
    return r->processes.transport != NULL ? pst_trainer_stops(r->trainer) : wanted;
}

/* One process's clock is enough, and it can then say why it ends. */
static void look_at_clock(run *r)
{
    const double limit = r->settings->time_limit;
    if (limit > 0 && r->processes.leads && progress_clock() - r->started >= limit)
        r->time_is_up = 1;
}

/* Mean loss over the whole held-out part; *known = 0 where there is none of it. */
static pst_status validate(run *r, double *loss, int *known, pst_error *err)
{
    size_t context = (size_t)r->settings->model.context;
    double sum = 0;
    int64_t tokens = 0;
    for (size_t window = 0; !stops(r);) {
        size_t filled = 0;
        while (filled < EVAL_WINDOWS &&
               pst_text_window(r->text, window, r->inputs + filled * context,
                               r->labels + filled * context) > 0) {
            filled++;
            window++;
        }
        if (filled == 0)
            break;
        double part;
        int64_t part_tokens;
        pst_status status = pst_trainer_evaluate(r->trainer, filled, r->inputs,
                                                 r->labels, &part, &part_tokens, err);
        if (status != PST_OK)
            return status;
        sum += part;
        tokens += part_tokens;
    }
    *known = tokens > 0 && !stops(r);
    *loss = tokens > 0 ? sum / (double)tokens : 0;
    return PST_OK;
}

static pst_status report_validation(run *r, double *loss, int *known, pst_error *err)
{
    pst_status status = validate(r, loss, known, err);
    if (status == PST_OK && *known && r->processes.leads) {
        printf("validation loss %.4f after %" PRId64 " steps\n", *loss,
               pst_trainer_steps(r->trainer));
        fflush(stdout);
    }
    return status;
}

static pst_status read_batch(run *r, pst_error *err)
{
    const int64_t done = pst_trainer_steps(r->trainer);
    crash_enter("the data reader", done + 1, r->settings->watchdog_seconds);
    pst_text_sample(r->text, r->settings->seed, done, r->settings->batch, r->inputs,
                    r->labels);
    const pst_status status = train_faults_data(&r->faults, done + 1, err);
    crash_enter(NULL, 0, 0);
    return status;
}

static int shows_actions(const pipetrain_settings *s)
{
    return s->picture != NULL || s->trace != NULL || s->draw;
}

static pst_status one_step(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    pst_status status;
    if ((status = read_batch(r, err)) ||
        (status = pst_trainer_step(r->trainer, r->inputs, r->labels, &r->last, err)))
        return status;
    if (shows_actions(s) &&
        (status = pst_pipeline_share_trace(pst_trainer_pipeline(r->trainer), err)))
        return status;
    history_add(r->history, pst_trainer_pipeline(r->trainer));
    if (r->log != NULL && (status = train_log_step(r->log, &r->last, err)))
        return status;
    if (s->checkpoint_every == 0 || r->last.step % s->checkpoint_every != 0) {
        status = pst_trainer_save_poll(r->trainer, err);
    } else {
        status = pst_trainer_save_finish(r->trainer, err);
        if (status == PST_OK)
            status = pst_trainer_save_begin(r->trainer, s->checkpoint, err);
    }
    return processes_found(&r->processes, status, err);
}

/* What one process alone has found ends the calls that the others are in. */
static void tell_others(const run *r, pst_status status, const pst_error *err)
{
    const pst_transport *t = r->processes.transport;
    if (t != NULL && status != PST_OK && status != PST_EPEER)
        t->fail(t->self, err->text);
}

/* What is being saved gets there, also where training has failed. */
static pst_status end_saves(run *r, pst_status status, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    const int64_t done = pst_trainer_steps(r->trainer);
    if (!r->processes.agreed)
        tell_others(r, status, err);
    const pst_status saved =
        pst_trainer_save_finish(r->trainer, status == PST_OK ? err : NULL);
    if (status != PST_OK)
        return status;
    if (saved != PST_OK || s->checkpoint == NULL)
        return processes_found(&r->processes, saved, err);
    if (s->checkpoint_every > 0 && done % s->checkpoint_every == 0)
        return PST_OK; /* saved by the step itself */
    return processes_found(&r->processes,
                           pst_trainer_save(r->trainer, s->checkpoint, err), err);
}

static pst_status train(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    int64_t end = s->stop_at > 0 && s->stop_at < s->steps ? s->stop_at : s->steps;
    int64_t first = pst_trainer_steps(r->trainer);
    if (first >= end)
        return PST_OK;
    pst_status status = PST_OK;
    progress progress;
    progress_start(&progress, s->quiet || !r->processes.leads, first, end);
    while (status == PST_OK && pst_trainer_steps(r->trainer) < end && !stops(r)) {
        status = one_step(r, err);
        if (status != PST_OK)
            break;
        progress_step(&progress, &r->last);
        if (r->last.step < end)
            look_at_clock(r);
    }
    progress_end(&progress);
    return end_saves(r, status, err);
}

static pst_status print_sample(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    size_t prompt = strlen(s->prompt), count = (size_t)s->generate;
    int32_t *tokens = calloc(prompt + count, sizeof *tokens);
    if (tokens == NULL)
        return pst_error_no_memory(err, "the sample",
                                   (prompt + count) * sizeof *tokens);
    for (size_t i = 0; i < prompt; i++)
        tokens[i] = (unsigned char)s->prompt[i];
    pst_status status = pst_trainer_generate(r->trainer, tokens, prompt, count,
                                             s->temperature, s->seed, err);
    if (status == PST_OK && r->processes.leads) {
        printf("\n--- sample ---\n");
        for (size_t i = 0; i < prompt + count; i++)
            putchar(tokens[i]);
        printf("\n--- end of sample ---\n");
    }
    free(tokens);
    return status;
}

static pst_status show_results(run *r, pst_error *err)
{
    const pipetrain_settings *s = r->settings;
    pst_status status;
    double loss;
    int known;
    if ((status = report_validation(r, &loss, &known, err)))
        return status;
    if (r->log != NULL && known &&
        (status = train_log_val(r->log, &r->last, loss, err)))
        return status;
    if (s->digest) {
        char hex[65];
        pst_trainer_digest(r->trainer, hex);
        if (r->processes.leads)
            printf("digest sha256:%s%s\n", hex, r->processes.mixed ? " (mixed)" : "");
    }
    if (s->generate > 0 && (status = print_sample(r, err)))
        return status;
    if (r->processes.leads && history_count(r->history) > 0 &&
        (status = train_picture(s, r->schedule, r->history,
                                pst_trainer_pipeline(r->trainer), err)))
        return status;
    return PST_OK;
}

/* After a signal or a time limit: what has been kept, and how to go on. Returns the
 * exit status. */
static int report_stop(const run *r)
{
    const pipetrain_settings *s = r->settings;
    int64_t done = pst_trainer_steps(r->trainer);
    if (!r->processes.leads)
        return s->checkpoint == NULL;
    char who[48] = "another process's signal";
    if (r->time_is_up)
        snprintf(who, sizeof who, "--time-limit, %g s", s->time_limit);
    else if (stop_signal != 0)
        snprintf(who, sizeof who, "signal %d", (int)stop_signal);
    if (s->checkpoint == NULL) {
        say_error("stopped by %s after step %" PRId64
                  "; nothing was saved, since there is no --checkpoint DIR",
                  who, done);
        return 1;
    }
    printf("stopped by %s after step %" PRId64
           "; the checkpoint is in %s, go on with --resume\n",
           who, done, s->checkpoint);
    return 0;
}

/* What every rank was at, where the pipeline knows. */
static void print_ranks(const run *r)
{
    char now[8192];
    if (r->trainer == NULL)
        return;
    const char *line = pst_pipeline_report(pst_trainer_pipeline(r->trainer));
    if (*line == 0 && r->processes.transport != NULL && r->processes.transport->lost) {
        pst_pipeline_dump(pst_trainer_pipeline(r->trainer), now, sizeof now);
        line = now;
    }
    while (*line) {
        const size_t length = strcspn(line, "\n");
        fprintf(stderr, "  %.*s\n", (int)length, line);
        line += length + 1;
    }
}

/* Who waited for a process that is gone, and what that had; the transport has told the
 * log that it is. */
static void say_loss(const run *r)
{
    const pst_transport *t = r->processes.transport;
    const int lost = t->lost - 1;
    char ranks[256] = "";
    const int count = r->schedule != NULL && r->processes.process_of_rank != NULL
                          ? pst_schedule_ranks(r->schedule)
                          : 0;
    size_t used = 0;
    for (int rank = 0; rank < count && used < sizeof ranks - 16; rank++)
        if (r->processes.process_of_rank[rank] == lost)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%d",
                                     used == 0 ? ", with rank " : ", ", rank);
    say_error("%s waited for %s%s", t->where(t->self, t->process),
              t->where(t->self, lost), ranks);
}

/* The error, then the end. A callback that does not return may hold any lock, so that
 * then nothing is given back but to the system. Returns the exit status. */
static int fail(run *r, const pst_error *err)
{
    size_t bytes;
    fflush(stdout);
    /* Who has failed says so, and nobody else. */
    const int status = err->status == PST_EPEER ? 1 : say_failure(err);
    const int lost = r->processes.transport != NULL && r->processes.transport->lost;
    if (lost)
        say_loss(r);
    if (err->status != PST_EPEER || lost)
        print_ranks(r);
    /* A launcher may lose the last words of a process that aborts. */
    if (r->processes.agreed) {
        close_run(r);
        crash_ignore();
        processes_leave(&r->processes);
        return status;
    }
    tell_others(r, err->status, err);
    if (r->processes.transport != NULL) {
        processes_fail(&r->processes, status, err->status != PST_EPEER || lost);
        fflush(stdout);
        _exit(status); /* its launcher is gone, and MPI's own end would wait for it */
    }
    if (r->trainer != NULL &&
        pst_pipeline_abandoned(pst_trainer_pipeline(r->trainer), &bytes) > 0) {
        train_log_close(r->log);
        _exit(status);
    }
    close_run(r);
    crash_ignore();
    return status;
}

int pipetrain_train(const pipetrain_settings *settings)
{
    run r = {.settings = settings,
             .faults = {.settings = settings},
             .started = progress_clock()};
    pst_error err = PST_ERROR_INIT;
    int exit_status = 0, known;
    double loss;
    catch_stop_signals();
    crash_catch();
    if (open_run(&r, &err) != PST_OK)
        return fail(&r, &err);
    print_setting(&r);
    if (settings->report_binding &&
        processes_print_binding(&r.processes, pst_trainer_pipeline(r.trainer),
                                pst_schedule_ranks(r.schedule), &err) != PST_OK)
        return fail(&r, &err);
    if (report_validation(&r, &loss, &known, &err) != PST_OK ||
        train(&r, &err) != PST_OK)
        return fail(&r, &err);
    if (stops(&r))
        exit_status = report_stop(&r);
    else if (show_results(&r, &err) != PST_OK)
        return fail(&r, &err);
    train_faults_warn(&r.faults);
    close_run(&r);
    processes_leave(&r.processes);
    crash_ignore();
    return say_finish(exit_status);
}
