/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline.c - making a pipeline, loading it, asking it, ending it. */
#include <penstock/pipeline.h>

#include <stdio.h>
#include <string.h>

#include "stages/crossing.h"
#include "stages/engine.h"
#include "stages/hosts.h"
#include "stages/program.h"
#include "stages/run.h"
#include "stages/settle.h"
#include "stages/worker.h"

/* How long a worker that has a core to itself looks for a message before it sleeps:
 * about what being woken costs. */
enum { SPIN_NS = 50000 };

/* A team looks for longer: between two products of a callback is work that only its
 * first member does. */
enum { TEAM_SPIN_NS = 200000 };

/* No line of pst_pipeline_dump() is longer. */
enum { REPORT_LINE = 256 };

/* `count` stages of one replica, of which `stage` is one. */
static pst_status check_sizes(const pst_stage *stages, int count, int stage,
                              pst_error *err)
{
    const pst_stage *s = &stages[stage];
    if (!s->forward)
        return pst_error_set(err, PST_EINVAL, "stage %d has no forward callback",
                             stage);
    if (stage == 0 && s->input_bytes != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "stage 0 has %zu input bytes; it has no stage before it, so "
            "they must be 0",
            s->input_bytes);
    if (stage == count - 1 && s->output_bytes != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "stage %d has %zu output bytes; it is the last, so they must "
            "be 0",
            stage, s->output_bytes);
    if (stage > 0 && stages[stage - 1].output_bytes != s->input_bytes)
        return pst_error_set(
            err, PST_EINVAL,
            "stage %d makes %zu bytes and stage %d takes %zu; they must "
            "be the same",
            stage - 1, stages[stage - 1].output_bytes, stage, s->input_bytes);
    return PST_OK;
}

static pst_status check_arguments(const pst_stage *stages, int count,
                                  const int *rank_of_stage, int ranks,
                                  const pst_pipeline_options *options, pst_error *err)
{
    if (count < 1 || count > 65535 || ranks < 1 || ranks > count)
        return pst_error_set(
            err, PST_EINVAL,
            "%d stages on %d ranks; there must be 1 to 65535 stages, and "
            "1 rank to one a stage",
            count, ranks);
    const int replicas = options && options->replicas ? options->replicas : 1;
    if (replicas < 1 || count % replicas != 0)
        return pst_error_set(
            err, PST_EINVAL,
            "%d stages in %d replicas; all replicas have as many stages", count,
            replicas);
    const int each = count / replicas;
    for (int stage = 0; stage < count; stage++) {
        const pst_status status =
            check_sizes(stages + stage / each * each, each, stage % each, err);
        if (status != PST_OK)
            return status;
        if (rank_of_stage[stage] < 0 || rank_of_stage[stage] >= ranks)
            return pst_error_set(err, PST_EINVAL,
                                 "stage %d stands on rank %d; ranks are 0 .. %d", stage,
                                 rank_of_stage[stage], ranks - 1);
    }
    if (options && (options->team < 0 || options->team > 1024))
        return pst_error_set(err, PST_EINVAL, "teams of %d cores; a rank has 1 to 1024",
                             options->team);
    return options
               ? pst__ties_check(stages, count, options->ties, options->tie_count, err)
               : PST_OK;
}

/* Stages next to each other make the channels, two for each such pair; then ties. */
static uint32_t tags_needed(int stage_count, const pst_pipeline_options *options)
{
    return 2 * (uint32_t)stage_count + pst__tie_remote_tags(options);
}

/* All processes find the same fault, or none. */
static pst_status check_processes(int stage_count, int ranks,
                                  const pst_pipeline_options *options, pst_error *err)
{
    const pst_transport *t = options ? options->transport : NULL;
    if (!t)
        return PST_OK;
    if (!options->process_of_rank)
        return pst_error_set(err, PST_EINVAL,
                             "a transport without process_of_rank, which says who runs "
                             "each rank");
    for (int rank = 0; rank < ranks; rank++)
        if (options->process_of_rank[rank] < 0 ||
            options->process_of_rank[rank] >= t->processes)
            return pst_error_set(
                err, PST_EINVAL, "rank %d is to run on process %d; they are 0 .. %d",
                rank, options->process_of_rank[rank], t->processes - 1);
    const uint32_t free = t->tags - PST_TRANSPORT_OWN_TAGS - t->tags_used;
    const uint32_t needed = tags_needed(stage_count, options);
    if (needed > free)
        return pst_error_set(err, PST_EINVAL,
                             "%d stages and %d ties need %u tags, and %u of the "
                             "transport's %u are free",
                             stage_count, options->tie_count, (unsigned)needed,
                             (unsigned)free, (unsigned)t->tags);
    return PST_OK;
}

static pst_status copy_arguments(pst_pipeline *p, const pst_stage *stages,
                                 const int *rank_of_stage,
                                 const pst_pipeline_options *options, pst_error *err)
{
    const size_t count = (size_t)p->stage_count;
    if (options)
        p->options = *options;
    if (p->options.watchdog_seconds == 0)
        p->options.watchdog_seconds = 60;
    if (p->options.replicas == 0)
        p->options.replicas = 1;
    if (p->options.team == 0)
        p->options.team = 1;
    p->stages = pst_allocate_array(&p->env, count, sizeof *p->stages);
    p->rank_of_stage = pst_allocate_array(&p->env, count, sizeof *p->rank_of_stage);
    p->workers = pst_allocate_array(&p->env, (size_t)p->ranks, sizeof *p->workers);
    p->report_room = (size_t)p->ranks * REPORT_LINE + 1;
    p->report = pst_allocate(&p->env, p->report_room);
    if (p->options.transport)
        p->process_of_rank =
            pst_allocate_array(&p->env, (size_t)p->ranks, sizeof *p->process_of_rank);
    if (p->options.transport && !p->process_of_rank)
        return pst_error_no_memory(err, "a pipeline", 0);
    if (!p->stages || !p->rank_of_stage || !p->workers || !p->report)
        return pst_error_no_memory(err, "a pipeline", 0);
    for (size_t stage = 0; stage < count; stage++) {
        p->stages[stage].stage = stages[stage];
        p->stages[stage].rank = rank_of_stage[stage];
        p->rank_of_stage[stage] = rank_of_stage[stage];
    }
    if (p->process_of_rank)
        memcpy(p->process_of_rank, options->process_of_rank,
               (size_t)p->ranks * sizeof *p->process_of_rank);
    int place = 0; /* of share_host(), which adds the first */
    for (int rank = 0; rank < p->ranks; rank++) {
        pst_worker *w = &p->workers[rank];
        w->pipeline = p;
        w->rank = rank;
        if (pst__is_here(p, rank))
            w->place = place++;
        if (p->options.delay_seed != 0)
            w->delay_state =
                p->options.delay_seed + (uint64_t)rank * 0x9e3779b97f4a7c15u;
    }
    return PST_OK;
}

/* Weights, gradients and optimizer of one stage in its rank's resident arena. base
 * NULL: only count. False: that overflows. */
static bool place_stage(pst_placed_stage *placed, char *base, size_t *total)
{
    const pst_stage *s = &placed->stage;
    size_t weights, gradients, optimizer;
    if (s->gradient_count > SIZE_MAX / sizeof(float) ||
        !pst__arena_reserve(total, s->weight_bytes, &weights) ||
        !pst__arena_reserve(total, s->gradient_count * sizeof(float), &gradients) ||
        !pst__arena_reserve(total, s->optimizer_bytes, &optimizer))
        return false;
    if (!base)
        return true;
    placed->weights = s->weight_bytes ? base + weights : NULL;
    placed->gradients = s->gradient_count ? (float *)(void *)(base + gradients) : NULL;
    placed->optimizer = s->optimizer_bytes ? base + optimizer : NULL;
    return true;
}

static pst_status place_rank(pst_pipeline *p, int rank, pst_error *err)
{
    pst_worker *w = &p->workers[rank];
    size_t bytes = 0;
    for (int stage = 0; stage < p->stage_count; stage++)
        if (p->stages[stage].rank == rank &&
            !place_stage(&p->stages[stage], NULL, &bytes))
            return pst_error_no_memory(err, "the weights of a stage", 0);
    if (!pst__arena_init(&w->resident, &p->env, p->topology, w->place, bytes,
                         p->options.huge_pages))
        return pst__arena_refuse(p->topology, w->place, "the weights of a rank", bytes,
                                 err);
    size_t again = 0;
    for (int stage = 0; stage < p->stage_count; stage++)
        if (p->stages[stage].rank == rank)
            place_stage(&p->stages[stage], w->resident.base, &again);
    return PST_OK;
}

static pst_status start_team(pst_pipeline *p, pst_worker *w, pst_error *err)
{
    char name[16];
    snprintf(name, sizeof name, "pst-rank-%d", w->rank);
    return p->options.team == 1
               ? PST_OK
               : pst__team_create(&p->env, p->options.team,
                                  p->spin_ns ? TEAM_SPIN_NS : 0, name,
                                  pst__member_settle, w, &w->team, err);
}

static pst_status start_workers(pst_pipeline *p, pst_error *err)
{
    for (int rank = 0; rank < p->ranks; rank++) {
        pst_worker *w = &p->workers[rank];
        if (!pst__is_here(p, rank))
            continue;
        pst_status status = start_team(p, w, err);
        if (status == PST_OK)
            status = pst__worker_start(w, err);
        if (status != PST_OK)
            return status;
    }
    pst__pipeline_wait_idle(p);
    pst__settle_warn(p);
    return PST_OK;
}

static pst_topology_options topology_options(const pst_pipeline_options *options,
                                             int ranks)
{
    return (pst_topology_options){.synthetic = options->topology_synthetic,
                                  .xml = options->topology_xml,
                                  .bind = options->bind,
                                  .cpus = options->bind_cpus,
                                  .ranks = ranks,
                                  .team = options->team ? options->team : 1};
}

static pst_status make_topology(const pst_env *env, const pst_pipeline_options *options,
                                int ranks, pst_topology **out, pst_error *err)
{
    const pst_topology_options wanted = topology_options(options, ranks);
    return pst__topology_create(env, &wanted, out, err);
}

pst_status pst_pipeline_team(const pst_env *env, int ranks,
                             const pst_pipeline_options *options, int *team,
                             pst_error *err)
{
    static const pst_pipeline_options defaults;
    if (!options)
        options = &defaults;
    if (ranks < 1)
        return pst_error_set(err, PST_EINVAL, "teams of %d ranks; 1 would work", ranks);
    const bool elsewhere = options->topology_synthetic || options->topology_xml;
    pst_share_of_host host;
    pst_status status = pst__hosts_share(env, options, ranks, &host, err);
    if (status != PST_OK)
        return status;
    const int share = host.places > 0 ? pst_cpu_budget() / host.places : 1;
    *team = share > 1 ? share : 1;
    if (options->bind == PST_BIND_NONE || host.places == 0 || host.torn ||
        (*team == 1 && !elsewhere))
        return PST_OK;
    const pst_topology_options wanted = topology_options(options, host.places);
    int fit;
    status = pst__topology_team(env, &wanted, &fit, err);
    if (status == PST_OK && (elsewhere || fit < *team))
        *team = fit;
    return status;
}

int pst_pipeline_sharing(const pst_pipeline *pipeline)
{
    return pipeline->sharing;
}

pst_status pst_pipeline_places(const pst_env *env, int ranks,
                               const pst_pipeline_options *options,
                               pst_worker_info *infos, pst_error *err)
{
    static const pst_pipeline_options defaults;
    pst_topology *topology = NULL;
    if (!options)
        options = &defaults;
    if (ranks < 1)
        return pst_error_set(err, PST_EINVAL, "places for %d ranks; 1 would work",
                             ranks);
    if (options->bind != PST_BIND_NONE) {
        const pst_status status = make_topology(env, options, ranks, &topology, err);
        if (status != PST_OK)
            return status;
    }
    for (int rank = 0; rank < ranks; rank++) {
        infos[rank] =
            (pst_worker_info){.planned = 1, .team = options->team ? options->team : 1};
        pst__settle_describe(topology, rank, &infos[rank]);
    }
    pst__topology_destroy(topology);
    return PST_OK;
}

/* That processes share CPUs is no accident where they may use all of the host. */
static void warn_of_crowd(const pst_pipeline *p, const pst_share_of_host *host)
{
    char cpus[64];
    pst_cpu_budget_info budget;
    pst_cpu_budget_describe(&budget);
    if (host->sharing < 2 || host->first > 0 || !host->narrow || host->here == 0 ||
        host->places <= budget.allowed)
        return;
    pst__thread_cpus(cpus, sizeof cpus);
    pst_log(&p->env, PST_LOG_WARNING,
            "%d ranks in %d processes share CPU %s of this host, since they were given "
            "no other; a launcher that gives each process its own, or all of them, "
            "would do",
            host->places, host->sharing, cpus);
}

/* The places of this process's ranks among those of all that use the same CPUs. */
static pst_status share_host(pst_pipeline *p, pst_error *err)
{
    pst_share_of_host host;
    pst_status status = pst__hosts_share(&p->env, &p->options, p->ranks, &host, err);
    if (status != PST_OK)
        return status;
    p->workers_here = host.here;
    p->sharing = host.places;
    for (int rank = 0; rank < p->ranks; rank++)
        p->workers[rank].place += host.first;
    if (p->options.transport) {
        p->first_tag = p->options.transport->tags_used;
        p->options.transport->tags_used += tags_needed(p->stage_count, &p->options);
    }
    /* A worker that spins takes the core of one that computes if they must share. */
    if (!host.torn && host.places * p->options.team <= pst_cpu_budget())
        p->spin_ns = SPIN_NS;
    if (host.torn)
        pst_log(
            &p->env, PST_LOG_WARNING,
            "another process may use a part of this one's CPUs, so workers are left "
            "to the system; a launcher that gives each process its own, or all the "
            "same, would do");
    warn_of_crowd(p, &host);
    if (p->options.bind == PST_BIND_NONE || host.torn || host.here == 0)
        return PST_OK;
    return make_topology(&p->env, &p->options, host.places, &p->topology, err);
}

static pst_status build(pst_pipeline *p, const pst_stage *stages,
                        const int *rank_of_stage, const pst_pipeline_options *options,
                        pst_error *err)
{
    pst_status status = copy_arguments(p, stages, rank_of_stage, options, err);
    if (status == PST_OK)
        status = share_host(p, err);
    for (int rank = 0; status == PST_OK && rank < p->ranks; rank++)
        if (pst__is_here(p, rank))
            status = place_rank(p, rank, err);
    if (status == PST_OK)
        status = pst__ties_create(p, &p->ties, err);
    return status == PST_OK ? start_workers(p, err) : status;
}

static pst_status create(const pst_env *env, const pst_stage *stages, int stage_count,
                         const int *rank_of_stage, int ranks,
                         const pst_pipeline_options *options, pst_pipeline **out,
                         pst_error *err)
{
    pst_status status =
        check_arguments(stages, stage_count, rank_of_stage, ranks, options, err);
    if (status == PST_OK)
        status = check_processes(stage_count, ranks, options, err);
    if (status != PST_OK)
        return status;
    pst_pipeline *p = pst_allocate(env, sizeof *p);
    if (!p)
        return pst_error_no_memory(err, "a pipeline", sizeof *p);
    if (env)
        p->env = *env;
    p->ranks = ranks;
    p->stage_count = stage_count;
    status = build(p, stages, rank_of_stage, options, err);
    if (status == PST_OK)
        *out = p;
    else
        pst_pipeline_destroy(p);
    return status;
}

pst_status pst_pipeline_create(const pst_env *env, const pst_stage *stages,
                               int stage_count, const int *rank_of_stage, int ranks,
                               const pst_pipeline_options *options, pst_pipeline **out,
                               pst_error *err)
{
    pst_error own = PST_ERROR_INIT;
    const pst_status status =
        create(env, stages, stage_count, rank_of_stage, ranks, options, out, &own);
    return pst__pipeline_tell(options ? options->transport : NULL, status, &own, err);
}

static pst_status load(pst_pipeline *pipeline, const pst_schedule *schedule,
                       int *program, pst_error *err)
{
    const int count = pipeline->program_count;
    pst_program *grown = pipeline->programs
                             ? pst_grow(&pipeline->env, pipeline->programs,
                                        (size_t)count * sizeof *grown,
                                        (size_t)(count + 1) * sizeof *grown)
                             : pst_allocate(&pipeline->env, sizeof *grown);
    if (!grown)
        return pst_error_no_memory(err, "a schedule", sizeof *grown);
    pipeline->programs = grown;
    const pst_status status = pst__program_load(pipeline, schedule, &grown[count], err);
    if (status != PST_OK)
        return status;
    pst__settle_warn(pipeline);
    *program = count;
    pipeline->program_count++;
    return PST_OK;
}

pst_status pst_pipeline_load(pst_pipeline *pipeline, const pst_schedule *schedule,
                             int *program, pst_error *err)
{
    pst_error own = PST_ERROR_INIT;
    const pst_status status = load(pipeline, schedule, program, &own);
    return pst__pipeline_tell(pipeline->options.transport, status, &own, err);
}

void *pst_pipeline_weights(pst_pipeline *pipeline, int stage)
{
    return pipeline->stages[stage].weights;
}

float *pst_pipeline_gradients(pst_pipeline *pipeline, int stage)
{
    return pipeline->stages[stage].gradients;
}

void *pst_pipeline_optimizer(pst_pipeline *pipeline, int stage)
{
    return pipeline->stages[stage].optimizer;
}

const pst_trace_event *pst_pipeline_trace(const pst_pipeline *pipeline, int rank,
                                          size_t *count)
{
    *count = pipeline->workers[rank].event_count;
    return pipeline->workers[rank].events;
}

void pst_pipeline_worker(const pst_pipeline *pipeline, int rank, pst_worker_info *info)
{
    const pst_worker *w = &pipeline->workers[rank];
    *info = w->info;
    info->memory_bytes = w->resident.bytes + w->working.bytes;
    snprintf(info->memory_nodes, sizeof info->memory_nodes, "%s",
             w->resident.nodes[0] ? w->resident.nodes : w->working.nodes);
}

const char *pst_pipeline_report(const pst_pipeline *pipeline)
{
    return pipeline->report;
}

/* Has this worker come back from its last phase, or will it at once? */
static bool is_back(const pst_pipeline *p, const pst_worker *w)
{
    /* relaxed: from here on it only looks at `quit`, and joining orders the rest. */
    return !p->broken ||
           atomic_load_explicit(&w->state, memory_order_relaxed) == PST__IDLE;
}

/* The number of workers in a callback that may still return, and then needs its memory.
 */
static int stop_workers(pst_pipeline *p)
{
    int left = 0;
    /* relaxed: the next line publishes it. Not in `run`, which a worker that never came
     * back may still read. */
    atomic_store_explicit(&p->quit, 1, memory_order_relaxed);
    /* release: pairs with the acquire in pst__wait_change(), which precedes reading
     * run. */
    atomic_fetch_add_explicit(&p->start, 1, memory_order_release);
    pst__futex_wake(&p->start, true);
    for (int rank = 0; rank < p->ranks; rank++) {
        pst_worker *w = &p->workers[rank];
        if (!w->started)
            continue;
        if (is_back(p, w)) {
            pst__thread_join(&w->thread);
        } else {
            pst__thread_detach(&w->thread);
            left++;
        }
    }
    return left;
}

static void release_all(pst_pipeline *p)
{
    const pst_env env = p->env;
    /* Both first: until their transfers have ended they know workers and arenas. */
    pst__crossings_close(p);
    pst__ties_destroy(p->ties, &env);
    for (int rank = 0; p->workers && rank < p->ranks; rank++) {
        pst__team_destroy(p->workers[rank].team, &env);
        pst__arena_fini(&p->workers[rank].resident, &env);
        pst__arena_fini(&p->workers[rank].working, &env);
        pst_release(&env, p->workers[rank].events);
    }
    for (int i = 0; i < p->program_count; i++)
        pst__program_fini(&p->programs[i], &env);
    for (size_t i = 0; i < p->channel_count; i++) {
        pst__channel_fini(p->channels[i], &env);
        pst_release(&env, p->channels[i]);
    }
    pst__topology_destroy(p->topology);
    pst_release(&env, p->channels);
    pst_release(&env, p->programs);
    pst_release(&env, p->lengths);
    pst_release(&env, p->report);
    pst_release(&env, p->workers);
    pst_release(&env, p->rank_of_stage);
    pst_release(&env, p->process_of_rank);
    pst_release(&env, p->stages);
    pst_release(&env, p);
}

void pst_pipeline_destroy(pst_pipeline *pipeline)
{
    if (!pipeline)
        return;
    size_t bytes = 0;
    if (pipeline->workers)
        pst_pipeline_abandoned(pipeline, &bytes);
    const int left = pipeline->workers ? stop_workers(pipeline) : 0;
    if (left == 0)
        release_all(pipeline);
    else
        pst_log(&pipeline->env, PST_LOG_ERROR,
                "%d worker%s in a callback that does not return; %zu bytes of memory "
                "stay with %s",
                left, left == 1 ? " is" : "s are", bytes, left == 1 ? "it" : "them");
}
