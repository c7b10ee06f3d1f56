/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c - making a stream, running it, asking it, ending it. */
#include <penstock/stream.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stages/stream_engine.h"

enum {
    STAGES_AT_MOST = 65535,
    WORKERS_AT_MOST = 65535,
    CAPACITY_AT_MOST = 1 << 24,
    CAPACITY = 1024,
    BUFFERS_PER_WORKER = 4,
    SPIN_NS = 50000,       /* about what being woken costs                     */
    GRACE_NS = 2000000000, /* for workers to come back after a fault           */
    DEFAULT_WATCHDOG_S = 60
};

/* ---- checking -------------------------------------------------------------- */

static const char *role(int stage, int count)
{
    return stage == 0 ? " (the source)" : stage == count - 1 ? " (the sink)" : "";
}

static pst_status check_stage(const pst_stream_stage *stages, int count, int i,
                              pst_error *err)
{
    const pst_stream_stage *stage = &stages[i];
    const int replicas = pst__stream_replicas(stage);
    if (!stage->run)
        return pst_error_set(err, PST_EINVAL, "stage %d%s has no callback", i,
                             role(i, count));
    if (replicas < 1 || replicas > WORKERS_AT_MOST)
        return pst_error_set(err, PST_EINVAL,
                             "stage %d has %d replicas; 1 to %d would work", i,
                             replicas, WORKERS_AT_MOST);
    if ((i == 0 || i == count - 1) && replicas != 1)
        return pst_error_set(err, PST_EINVAL, "stage %d%s has %d replicas; it has 1", i,
                             role(i, count), replicas);
    if (i == 0)
        return stage->with_previous || stage->any_order
                   ? pst_error_set(err, PST_EINVAL,
                                   "stage 0 (the source) has no stage before it to be "
                                   "with, or to take from in any order")
                   : PST_OK;
    const int before = pst__stream_replicas(&stages[i - 1]);
    if (stage->with_previous && replicas != before)
        return pst_error_set(err, PST_EINVAL,
                             "stage %d has %d replicas and is run by the workers of "
                             "stage %d, which has %d; they must be as many",
                             i, replicas, i - 1, before);
    if (replicas != before && replicas != 1 && before != 1)
        return pst_error_set(err, PST_EINVAL,
                             "stage %d has %d replicas and stage %d has %d; as many, "
                             "or a stage with 1 between them, would work",
                             i - 1, before, i, replicas);
    if (stage->any_order && (before == 1 || replicas != 1))
        return pst_error_set(err, PST_EINVAL,
                             "stage %d takes items in any order; only a stage with 1 "
                             "replica after one with several may",
                             i);
    return PST_OK;
}

static pst_status check_arguments(const pst_stream_stage *stages, int count,
                                  const pst_stream_options *options, pst_error *err)
{
    if (count < 2 || count > STAGES_AT_MOST)
        return pst_error_set(err, PST_EINVAL,
                             "%d stages; a stream has a source, a sink and at most "
                             "%d in all",
                             count, STAGES_AT_MOST);
    long workers = 0;
    for (int i = 0; i < count; i++) {
        const pst_status status = check_stage(stages, count, i, err);
        if (status != PST_OK)
            return status;
        workers += stages[i].with_previous ? 0 : pst__stream_replicas(&stages[i]);
    }
    if (workers > WORKERS_AT_MOST)
        return pst_error_set(err, PST_EINVAL, "%ld workers; %d is the most", workers,
                             WORKERS_AT_MOST);
    if (!options)
        return PST_OK;
    if (options->capacity < 0 || options->capacity > CAPACITY_AT_MOST)
        return pst_error_set(err, PST_EINVAL, "a capacity of %d; 1 to %d would work",
                             options->capacity, CAPACITY_AT_MOST);
    if (options->buffer_count < 0 || options->buffer_count > CAPACITY_AT_MOST ||
        (options->buffer_count && !options->item_bytes))
        return pst_error_set(err, PST_EINVAL,
                             "%d buffers of %zu bytes; 1 to %d buffers of at least 1 "
                             "byte would work",
                             options->buffer_count, options->item_bytes,
                             CAPACITY_AT_MOST);
    return PST_OK;
}

/* ---- making ---------------------------------------------------------------- */

/* The first stage after `first` that is not run by the same worker. */
static int group_end(const pst_stream *s, int first)
{
    int end = first + 1;
    while (end < s->stage_count && s->stages[end].with_previous)
        end++;
    return end;
}

/* The first stage after the groups of equal replicas that begin with `first`. */
static int section_end(const pst_stream *s, int first)
{
    const int replicas = pst__stream_replicas(&s->stages[first]);
    int end = group_end(s, first);
    while (end < s->stage_count && pst__stream_replicas(&s->stages[end]) == replicas)
        end = group_end(s, end);
    return end;
}

static int count_workers(const pst_stream *s)
{
    int count = 0;
    for (int i = 0; i < s->stage_count; i = group_end(s, i))
        count += pst__stream_replicas(&s->stages[i]);
    return count;
}

/* Number the workers so that those who feed each other are neighbours: replica by
 * replica through the groups of a section. */
static void place_stages(pst_stream *s)
{
    pst_stream_worker_state *w = s->workers;
    for (int i = 0; i < s->stage_count; i = section_end(s, i))
        for (int r = 0; r < pst__stream_replicas(&s->stages[i]); r++)
            for (int g = i; g < section_end(s, i); g = group_end(s, g), w++) {
                w->stream = s;
                w->number = (int)(w - s->workers);
                w->first_stage = g;
                w->stage_end = group_end(s, g);
                w->replica = r;
                w->item.replica = r;
                w->in_order = !s->stages[g].any_order;
            }
}

static pst_stream_worker_state *find_worker(const pst_stream *s, int first_stage,
                                            int replica)
{
    for (int i = 0; i < s->worker_count; i++)
        if (s->workers[i].first_stage == first_stage &&
            s->workers[i].replica == replica)
            return &s->workers[i];
    return NULL;
}

/* How many flows stand between the workers of two groups. */
static int flows_between(const pst_stream *s, int from, int to)
{
    const int before = pst__stream_replicas(&s->stages[from]);
    const int after = pst__stream_replicas(&s->stages[to]);
    return before > after ? before : after;
}

/* A new flow, as the last of the worker's that gives and of the one's that takes. */
static bool connect(pst_stream *s, uint32_t capacity, pst_stream_worker_state *from,
                    pst_stream_worker_state *to)
{
    pst_flow *flow = &s->flows[s->flow_count];
    if (!pst__flow_init(flow, &s->env, capacity, &from->doorbell, &to->doorbell))
        return false;
    s->flow_count++;
    from->out[from->out_count++] = flow;
    to->in[to->in_count++] = flow;
    return true;
}

static bool connect_groups(pst_stream *s, int from, int to)
{
    const int flows = flows_between(s, from, to);
    for (int i = 0; i < flows; i++) {
        pst_stream_worker_state *a =
            find_worker(s, from, i % pst__stream_replicas(&s->stages[from]));
        pst_stream_worker_state *b =
            find_worker(s, to, i % pst__stream_replicas(&s->stages[to]));
        if (!connect(s, (uint32_t)s->options.capacity, a, b))
            return false;
    }
    return true;
}

/* Each worker's lists of flows, in one block: as many as it can have at the most. */
static bool allocate_lists(pst_stream *s, size_t flows)
{
    s->flows = pst_allocate_array(&s->env, flows, sizeof *s->flows);
    s->ends = pst_allocate_array(&s->env, 2 * flows, sizeof *s->ends);
    if (!s->flows || !s->ends)
        return false;
    pst_flow **next = s->ends;
    for (int i = 0; i < s->worker_count; i++) {
        pst_stream_worker_state *w = &s->workers[i];
        const int before = w->first_stage - 1;
        const bool is_sink = w->stage_end == s->stage_count;
        const int mine = pst__stream_replicas(&s->stages[w->first_stage]);
        w->in = next;
        if (before >= 0 && mine == 1)
            next += pst__stream_replicas(&s->stages[before]);
        else
            next += before >= 0 || pst__stream_owns_buffers(s);
        w->out = next;
        if (!is_sink && mine == 1)
            next += pst__stream_replicas(&s->stages[w->stage_end]);
        else
            next += !is_sink || pst__stream_owns_buffers(s);
    }
    return true;
}

static pst_status connect_workers(pst_stream *s, pst_error *err)
{
    size_t flows = pst__stream_owns_buffers(s);
    for (int i = 0; group_end(s, i) < s->stage_count; i = group_end(s, i))
        flows += (size_t)flows_between(s, i, group_end(s, i));
    bool good = allocate_lists(s, flows);
    if (good && pst__stream_owns_buffers(s))
        good = connect(s, (uint32_t)s->options.buffer_count,
                       &s->workers[s->worker_count - 1], &s->workers[0]);
    for (int i = 0; good && group_end(s, i) < s->stage_count; i = group_end(s, i))
        good = connect_groups(s, i, group_end(s, i));
    return good ? PST_OK : pst_error_no_memory(err, "the rings of a stream", 0);
}

static pst_status allocate_buffers(pst_stream *s, pst_error *err)
{
    size_t total = 0;
    size_t offset;
    if (!pst__stream_owns_buffers(s))
        return PST_OK;
    for (int i = 0; i < s->options.buffer_count; i++) {
        if (!pst__arena_reserve(&total, s->options.item_bytes, &offset))
            return pst_error_no_memory(err, "the buffers of a stream", SIZE_MAX);
        if (i == 0)
            s->buffer_stride = total;
    }
    if (!pst__arena_init(&s->buffers, &s->env, s->topology, 0, total, false))
        return pst_error_no_memory(err, "the buffers of a stream", total);
    return PST_OK;
}

static void set_defaults(pst_stream *s, const pst_stream_options *options)
{
    if (options)
        s->options = *options;
    if (s->options.watchdog_seconds == 0)
        s->options.watchdog_seconds = DEFAULT_WATCHDOG_S;
    if (s->options.capacity == 0)
        s->options.capacity = CAPACITY;
}

static pst_status build(pst_stream *s, const pst_stream_stage *stages, pst_error *err)
{
    const size_t stage_bytes = (size_t)s->stage_count * sizeof *stages;
    s->stages = pst_allocate(&s->env, stage_bytes);
    if (!s->stages)
        return pst_error_no_memory(err, "a stream's stages", stage_bytes);
    memcpy(s->stages, stages, stage_bytes);
    const int count = count_workers(s);
    s->workers = pst_allocate_array(&s->env, (size_t)count, sizeof *s->workers);
    if (!s->workers)
        return pst_error_no_memory(err, "a stream's workers", 0);
    s->worker_count = count;
    if (pst__stream_owns_buffers(s) && s->options.buffer_count == 0)
        s->options.buffer_count = BUFFERS_PER_WORKER * count;
    place_stages(s);
    pst_status status = connect_workers(s, err);
    const pst_topology_options wanted = {.synthetic = s->options.topology_synthetic,
                                         .xml = s->options.topology_xml,
                                         .bind = s->options.bind,
                                         .cpus = s->options.bind_cpus,
                                         .ranks = count,
                                         .team = 1};
    if (status == PST_OK && s->options.bind != PST_BIND_NONE)
        status = pst__topology_create(&s->env, &wanted, &s->topology, err);
    if (status == PST_OK)
        status = allocate_buffers(s, err);
    if (status != PST_OK)
        return status;
    /* A worker that spins takes the core of one that computes if they must share. */
    s->spin_ns = count <= pst_cpu_budget() ? SPIN_NS : 0;
    s->crew.env = &s->env;
    s->crew.topology = s->topology;
    s->crew.name = "pst-stream";
    s->crew.work = pst__stream_work;
    s->crew.user = s;
    s->crew.size = count;
    s->crew.spin_ns = s->spin_ns;
    return pst__crew_start(&s->crew, err);
}

pst_status pst_stream_create(const pst_env *env, const pst_stream_stage *stages,
                             int stage_count, const pst_stream_options *options,
                             pst_stream **out, pst_error *err)
{
    pst_status status = check_arguments(stages, stage_count, options, err);
    if (status != PST_OK)
        return status;
    pst_stream *s = pst_allocate(env, sizeof *s);
    if (!s)
        return pst_error_no_memory(err, "a stream", sizeof *s);
    if (env)
        s->env = *env;
    s->stage_count = stage_count;
    set_defaults(s, options);
    status = build(s, stages, err);
    if (status == PST_OK)
        *out = s;
    else
        pst_stream_destroy(s);
    return status;
}

/* ---- running --------------------------------------------------------------- */

void pst__stream_end(pst_stream *stream, uint32_t why)
{
    uint32_t goes_on = PST__STREAM_GOES_ON;
    /* seq_cst: S1 of doorbell.h, with this flag in place of the count. */
    if (!atomic_compare_exchange_strong_explicit(
            &stream->ended, &goes_on, why, memory_order_seq_cst, memory_order_relaxed))
        return;
    for (int i = 0; i < stream->worker_count; i++)
        pst__doorbell_alarm(&stream->workers[i].doorbell);
}

void pst_stream_cancel(pst_stream *stream)
{
    pst__stream_end(stream, PST__STREAM_CANCELLED);
}

void pst__stream_discard(const pst_stream *stream, void *data)
{
    if (data && stream->options.discard)
        stream->options.discard(stream->options.discard_user, data);
}

/* Changes whenever any worker gets on. */
static uint64_t movement(void *user)
{
    pst_stream *s = user;
    uint64_t sum = 0;
    for (int i = 0; i < s->worker_count; i++) {
        /* relaxed: any value will do, as long as it gets newer. */
        sum = sum * 31 +
              atomic_load_explicit(&s->workers[i].position, memory_order_relaxed);
        sum =
            sum * 31 + atomic_load_explicit(&s->workers[i].state, memory_order_relaxed);
    }
    return sum;
}

static void refill_buffers(pst_stream *s)
{
    for (int i = 0; i < s->options.buffer_count; i++)
        pst__flow_push(&s->flows[0], (pst_token){.data = s->buffers.base +
                                                         (size_t)i * s->buffer_stride});
}

static void set_up(pst_stream *s)
{
    /* relaxed throughout: beginning the run publishes it. */
    atomic_store_explicit(&s->ended, PST__STREAM_GOES_ON, memory_order_relaxed);
    atomic_store_explicit(&s->failed, 0, memory_order_relaxed);
    for (int i = 0; i < s->flow_count; i++)
        pst__flow_reset(&s->flows[i], 0);
    for (int i = 0; i < s->worker_count; i++) {
        pst_stream_worker_state *w = &s->workers[i];
        pst__doorbell_disarm(&w->doorbell);
        atomic_store_explicit(&w->position, 0, memory_order_relaxed);
        w->in_at = 0;
        w->out_at = 0;
        w->next = 0;
        w->moved = 0;
        w->taken = 0;
        w->spin_ns = s->spin_ns;
        w->callback_error.status = PST_OK;
        w->callback_error.text[0] = '\0';
        w->error.status = PST_OK;
    }
    if (pst__stream_owns_buffers(s))
        refill_buffers(s);
}

/* What a run that ended early left in rings and hands. */
static void drain(pst_stream *s)
{
    if (pst__stream_owns_buffers(s))
        return;
    for (int i = 0; i < s->flow_count; i++)
        for (const pst_token *token; (token = pst__flow_peek(&s->flows[i]));
             pst__flow_pop(&s->flows[i]))
            pst__stream_discard(s, token->data);
    for (int i = 0; i < s->worker_count; i++) {
        pst_stream_worker_state *w = &s->workers[i];
        if (w->holds)
            pst__stream_discard(s, w->held.data);
        w->holds = false;
    }
}

/* Nothing moves: say who waits for what, then bring the workers back. */
static pst_status time_out(pst_stream *s, pst_error *err)
{
    char text[sizeof err->text - 128];
    const size_t length = pst_stream_dump(s, text, sizeof text);
    for (char *newline = text; (newline = strchr(newline, '\n'));)
        *newline = ';';
    const size_t last = strlen(text);
    if (length < sizeof text && last > 0 && text[last - 1] == ';')
        text[last - 1] = '\0';
    pst__stream_end(s, PST__STREAM_LATE);
    return pst_error_set(err, PST_ETIMEOUT, "no item moved for %g s: %s",
                         s->options.watchdog_seconds, text);
}

static pst_status find_fault(pst_stream *s, pst_error *err)
{
    /* acquire, though nothing is lost with relaxed (tests/stages/test_explore.c): all
     * workers have finished, and of a cancellation only the word is read. */
    const uint32_t why = atomic_load_explicit(&s->ended, memory_order_acquire);
    if (why == PST__STREAM_GOES_ON)
        return PST_OK;
    if (why == PST__STREAM_CANCELLED)
        return pst_error_set(err, PST_ECALLBACK, "the stream was cancelled");
    /* relaxed: all workers have finished, which orders it. */
    const uint32_t failed = atomic_load_explicit(&s->failed, memory_order_relaxed);
    const pst_error *own = &s->workers[failed - 1].error;
    return pst_error_set(err, own->status, "%s", own->text);
}

/* 0: none. */
static uint64_t watchdog_ns(const pst_stream *s)
{
    const double seconds = s->options.watchdog_seconds;
    return seconds < 0 || seconds > 1e9 ? 0 : (uint64_t)(seconds * 1e9) + 1;
}

pst_status pst_stream_run(pst_stream *stream, uint64_t *taken, pst_error *err)
{
    if (stream->crew.broken)
        return pst_error_set(err, PST_ETIMEOUT,
                             "a stage's callback has not returned from an earlier run; "
                             "this stream can only be destroyed");
    set_up(stream);
    pst__crew_begin(&stream->crew);
    pst_status status;
    if (pst__crew_wait(&stream->crew, watchdog_ns(stream), movement)) {
        status = find_fault(stream, err);
    } else {
        status = time_out(stream, err);
        if (!pst__crew_gather(&stream->crew, GRACE_NS))
            return status;
    }
    drain(stream);
    if (status == PST_OK && taken)
        *taken = stream->workers[stream->worker_count - 1].taken;
    return status;
}

/* ---- asking ---------------------------------------------------------------- */

char *pst__stream_stage_text(const pst_stream *stream, int stage, char *text,
                             size_t size)
{
    const char *name = stream->stages[stage].name;
    const int last = stream->stage_count - 1;
    int used;
    if (stage == 0 || stage == last)
        used = snprintf(text, size, "%s", stage == 0 ? "the source" : "the sink");
    else
        used = snprintf(text, size, "stage %d", stage);
    if (name && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " (%s)", name);
    return text;
}

int pst_stream_worker_count(const pst_stream *stream)
{
    return stream->worker_count;
}

void pst_stream_worker(const pst_stream *stream, int worker, pst_worker_info *info)
{
    *info = stream->crew.members[worker].info;
    info->memory_bytes = worker == 0 ? stream->buffers.bytes : 0;
}

/* "stage 1, replica 0" of a worker. */
static char *worker_text(const pst_stream *s, const pst_stream_worker_state *w,
                         int stage, char *text, size_t size)
{
    pst__stream_stage_text(s, stage, text, size);
    const size_t used = strlen(text);
    if (pst__stream_replicas(&s->stages[stage]) > 1)
        snprintf(text + used, size - used, ", replica %d", w->replica);
    return text;
}

/* One line on a worker, as snprintf. */
static int dump_worker(const pst_stream *s, const pst_stream_worker_state *w,
                       char *text, size_t size)
{
    /* relaxed: a picture of the moment; the two may be one item apart. */
    const uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    const uint64_t at = atomic_load_explicit(&w->position, memory_order_relaxed);
    const int calls = (int)state - PST__STREAM_CALLS;
    char who[160];
    worker_text(s, w, calls >= 0 ? calls : w->first_stage, who, sizeof who);
    switch (state) {
    case PST__STREAM_IDLE:
        return snprintf(text, size, "%s is idle\n", who);
    case PST__STREAM_HAS_ENDED:
        return snprintf(text, size, "%s has ended\n", who);
    case PST__STREAM_TAKES:
        return snprintf(text, size, "%s waits for %s\n", who,
                        w->first_stage == 0 ? "a buffer to come back" : "an item");
    case PST__STREAM_GIVES:
        return snprintf(text, size,
                        "%s waits for the stage after it to take item %" PRIu64 "\n",
                        who, at);
    default:
        return snprintf(text, size, "%s is in its callback with item %" PRIu64 "\n",
                        who, at);
    }
}

size_t pst_stream_dump(const pst_stream *stream, char *text, size_t size)
{
    size_t length = 0;
    if (size > 0)
        text[0] = '\0';
    for (int i = 0; i < stream->worker_count; i++) {
        const size_t used = length < size ? length : size;
        const int more = dump_worker(stream, &stream->workers[i],
                                     used < size ? text + used : NULL, size - used);
        length += more > 0 ? (size_t)more : 0;
    }
    return length;
}

/* ---- ending ---------------------------------------------------------------- */

void pst_stream_destroy(pst_stream *stream)
{
    if (!stream)
        return;
    const pst_env env = stream->env;
    if (!pst__crew_stop(&stream->crew)) {
        pst_log(&env, PST_LOG_ERROR,
                "a stage's callback has not returned; its stream's memory stays");
        return;
    }
    pst__arena_fini(&stream->buffers, &env);
    pst__topology_destroy(stream->topology);
    for (int i = 0; i < stream->flow_count; i++)
        pst__flow_fini(&stream->flows[i], &env);
    pst_release(&env, stream->ends);
    pst_release(&env, stream->flows);
    pst_release(&env, stream->workers);
    pst_release(&env, stream->stages);
    pst_release(&env, stream);
}
