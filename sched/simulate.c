/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulate.c - an event simulation that touches each action once.
 *
 * Every rank runs on until an input is missing; it then remembers which one, and
 * the action that makes it puts the rank back on a stack of ranks that can go on.
 * The order in which ranks are taken from the stack does not matter: start times
 * depend on inputs alone.
 *
 * Messages between hosts do not arrive by themselves, since the order in which they go
 * onto a link matters. They wait (network.h) until no rank can go on; then the earliest
 * goes. None that is earlier can come, as whatever is made from now on is made of what
 * has yet to arrive.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <penstock/simulate.h>

#include "sched/network.h"

/* An input that is not there; times are never negative. */
#define ABSENT (-1.0)
/* What EVICT or LOAD has put onto a link, and no one knows yet when it arrives. */
#define ON_LINK INFINITY
#define NOTHING SIZE_MAX

typedef struct state {
    const pst_env *env;
    const pst_schedule *schedule;
    pst_simulation *result;
    size_t microbatches; /* ids of one stage                                   */
    double *cost[PST_OP_REDUCE_GRAD + 1]; /* [stages] for ops that compute     */
    double (*duration)(void *user, pst_action action); /* NULL: `cost`          */
    void *duration_user;
    double pair;
    double hop;          /* from the end of an action to its use on another rank   */
    int *rank_of;        /* [stages]                                               */
    double *forward;     /* [iterations][stages][m] when F ended, or ABSENT        */
    double *backward;    /* the same of B or I                                    */
    double *moved;       /* and when EVICT ended, or what LOAD asked for is back;
                            NULL: the list evicts nothing                         */
    pst__network *links; /* NULL: no hosts, and neither are the next two           */
    double *came;        /* [2][half] when the messages of `forward` and `backward` are
                            where they are used, or ABSENT                        */
    double *asked;       /* with `moved`: when LOAD asked for what is still on its
                            way to the partner, or ABSENT                         */
    pst_status status;   /* PST_ENOMEM: it was missing in the midst               */
    pst_error *err;
    size_t *next;    /* [ranks] actions done, over all iterations              */
    double *free_at; /* [ranks]                                                */
    size_t *waits;   /* [ranks] index into forward, or `half` + into backward  */
    size_t half;
    int *stack; /* [ranks] that can go on                                 */
    int height;
} state;

static pst_status check_costs(const state *s, const pst_costs *costs, pst_error *err)
{
    const double *lists[] = {costs->forward, costs->backward_input,
                             costs->backward_weight};
    static const char *const names[] = {"forward", "backward-input", "backward-weight"};
    for (int k = 0; k < 3; k++)
        for (int i = 0; lists[k] != NULL && i < s->result->stages; i++)
            if (!(lists[k][i] >= 0) || isinf(lists[k][i]))
                return pst_error_set(err, PST_EINVAL,
                                     "%s cost %g of stage %d: must be 0 or more",
                                     names[k], lists[k][i], i);
    const double others[] = {costs->pair, costs->latency, costs->bandwidth,
                             costs->message_bytes};
    static const char *const other_names[] = {"pair", "latency", "bandwidth",
                                              "message-bytes"};
    for (int k = 0; k < 4; k++)
        if (!(others[k] >= 0) || isinf(others[k]))
            return pst_error_set(err, PST_EINVAL, "%s %g: must be 0 or more",
                                 other_names[k], others[k]);
    if (costs->iterations < 0)
        return pst_error_set(err, PST_EINVAL, "%d iterations: must be at least 1",
                             costs->iterations);
    return PST_OK;
}

static pst_status allocate_result(state *s, pst_error *err)
{
    pst_simulation *r = s->result;
    size_t ranks = (size_t)r->ranks;
    r->busy = pst_allocate_array(s->env, ranks, sizeof *r->busy);
    r->peak_activations =
        pst_allocate_array(s->env, ranks, sizeof *r->peak_activations);
    r->weight_versions = pst_allocate_array(s->env, ranks, sizeof(int));
    r->count = pst_allocate_array(s->env, ranks, sizeof *r->count);
    r->start = pst_allocate_array(s->env, ranks, sizeof *r->start);
    r->end = pst_allocate_array(s->env, ranks, sizeof *r->end);
    if (r->busy == NULL || r->peak_activations == NULL || r->weight_versions == NULL ||
        r->count == NULL || r->start == NULL || r->end == NULL)
        return pst_error_no_memory(err, "a simulation", ranks * sizeof *r->busy);
    for (int rank = 0; rank < r->ranks; rank++) {
        size_t count;
        pst_schedule_row(s->schedule, rank, &count);
        r->count[rank] = count * (size_t)r->iterations;
        r->start[rank] = pst_allocate_array(s->env, r->count[rank], sizeof(double));
        r->end[rank] = pst_allocate_array(s->env, r->count[rank], sizeof(double));
        if (r->start[rank] == NULL || r->end[rank] == NULL)
            return pst_error_no_memory(err, "times", r->count[rank] * sizeof(double));
    }
    return PST_OK;
}

/* `links` has to live as long as `s`. */
static pst_status set_network(state *s, pst__network *links, const pst_costs *costs,
                              pst_error *err)
{
    pst_simulation *r = s->result;
    if (costs->network == NULL)
        return PST_OK;
    const pst_status status = pst__network_check(costs->network, r->ranks, err);
    if (status != PST_OK)
        return status;
    r->hosts = costs->network->hosts;
    const size_t count = (size_t)r->hosts * (size_t)r->hosts;
    r->link_busy = pst_allocate_array(s->env, count, sizeof *r->link_busy);
    r->link_wait = pst_allocate_array(s->env, count, sizeof *r->link_wait);
    if (r->link_busy == NULL || r->link_wait == NULL)
        return pst_error_no_memory(err, "links", count * sizeof *r->link_busy);
    s->links = links;
    return pst__network_init(links, s->env, costs, r->link_busy, r->link_wait, err);
}

static pst_status allocate_messages(state *s, int evicts, pst_error *err)
{
    s->came = pst_allocate_array(s->env, 2 * s->half, sizeof *s->came);
    if (evicts)
        s->asked = pst_allocate_array(s->env, s->half, sizeof *s->asked);
    if (s->came == NULL || (evicts && s->asked == NULL))
        return pst_error_no_memory(err, "messages", 2 * s->half * sizeof *s->came);
    for (size_t i = 0; i < 2 * s->half; i++)
        s->came[i] = ABSENT;
    for (size_t i = 0; evicts && i < s->half; i++)
        s->asked[i] = ABSENT;
    return PST_OK;
}

static pst_status allocate_state(state *s, pst_error *err)
{
    size_t ranks = (size_t)s->result->ranks, stages = (size_t)s->result->stages;
    s->microbatches = (size_t)pst_schedule_microbatches(s->schedule);
    s->half = (size_t)s->result->iterations * stages * s->microbatches;
    s->rank_of = pst_allocate_array(s->env, stages, sizeof *s->rank_of);
    s->forward = pst_allocate_array(s->env, s->half, sizeof *s->forward);
    s->backward = pst_allocate_array(s->env, s->half, sizeof *s->backward);
    s->next = pst_allocate_array(s->env, ranks, sizeof *s->next);
    s->free_at = pst_allocate_array(s->env, ranks, sizeof *s->free_at);
    s->waits = pst_allocate_array(s->env, ranks, sizeof *s->waits);
    s->stack = pst_allocate_array(s->env, ranks, sizeof *s->stack);
    int missing = s->rank_of == NULL || s->forward == NULL || s->backward == NULL ||
                  s->next == NULL || s->free_at == NULL || s->waits == NULL ||
                  s->stack == NULL;
    for (int op = 0; op <= PST_OP_REDUCE_GRAD; op++) {
        s->cost[op] = pst_allocate_array(s->env, stages, sizeof(double));
        missing |= s->cost[op] == NULL;
    }
    if (missing)
        return pst_error_no_memory(err, "a simulation", 2 * s->half * sizeof(double));
    for (size_t i = 0; i < s->half; i++)
        s->forward[i] = s->backward[i] = ABSENT;
    int evicts = 0;
    for (int rank = 0; rank < s->result->ranks; rank++)
        evicts |= pst_schedule_most_evicted(s->schedule, rank) > 0;
    if (evicts)
        s->moved = pst_allocate_array(s->env, s->half, sizeof *s->moved);
    if (evicts && s->moved == NULL)
        return pst_error_no_memory(err, "a simulation", s->half * sizeof(double));
    if (s->links != NULL && allocate_messages(s, evicts, err) != PST_OK)
        return PST_ENOMEM;
    for (int rank = 0; rank < s->result->ranks; rank++) {
        s->waits[rank] = NOTHING;
        s->stack[rank] = s->result->ranks - 1 - rank;
    }
    s->height = s->result->ranks;
    for (int stage = 0; stage < s->result->stages; stage++)
        s->rank_of[stage] = pst_schedule_rank_of(s->schedule, stage);
    return PST_OK;
}

static void fill_costs(state *s, const pst_costs *costs)
{
    for (int stage = 0; stage < s->result->stages; stage++) {
        double f = costs->forward != NULL ? costs->forward[stage] : 1.0;
        double i = costs->backward_input != NULL ? costs->backward_input[stage] : 1.0;
        double w = costs->backward_weight != NULL ? costs->backward_weight[stage] : 1.0;
        s->cost[PST_OP_FORWARD][stage] = f;
        s->cost[PST_OP_BACKWARD][stage] = i + w;
        s->cost[PST_OP_BACKWARD_INPUT][stage] = i;
        s->cost[PST_OP_BACKWARD_WEIGHT][stage] = w;
    }
    s->duration = costs->duration;
    s->duration_user = costs->duration_user;
    s->pair = costs->pair;
    s->hop = costs->latency;
    if (costs->bandwidth > 0)
        s->hop += costs->message_bytes / costs->bandwidth;
    if (costs->network != NULL)
        s->hop = 0; /* within a host */
}

static size_t key(const state *s, size_t iteration, int stage, uint32_t microbatch)
{
    size_t stages = (size_t)s->result->stages;
    return (iteration * stages + (size_t)stage) * s->microbatches + microbatch;
}

/*
 * When what stage `maker` makes can be used on `rank`; ABSENT: not yet. `what` is an
 * index into `forward`, or `half` + one into `backward`.
 */
static double arrival(const state *s, size_t what, int maker, int rank)
{
    const double made = what < s->half ? s->forward[what] : s->backward[what - s->half];
    if (made == ABSENT || s->rank_of[maker] == rank)
        return made;
    if (s->links != NULL)
        return pst__network_cross(s->links, s->rank_of[maker], rank) ? s->came[what]
                                                                     : made;
    return made + s->hop;
}

/*
 * The earliest moment at which the inputs of `action` are on its rank, or ABSENT
 * with *missing set to the first input that is not made yet.
 */
static double inputs_ready(const state *s, size_t iteration, pst_action action,
                           int rank, size_t *missing)
{
    const int stage = action.stage;
    const int previous = pst_schedule_previous_stage(s->schedule, stage);
    const int next = pst_schedule_next_stage(s->schedule, stage);
    size_t own = key(s, iteration, stage, action.microbatch);
    if (action.op == PST_OP_FORWARD) {
        if (previous < 0)
            return 0;
        *missing = key(s, iteration, previous, action.microbatch);
        return arrival(s, *missing, previous, rank);
    }
    if (action.op == PST_OP_BACKWARD_WEIGHT) {
        *missing = s->half + own;
        return s->backward[own];
    }
    *missing = own;
    double ready = s->forward[own];
    if (s->moved != NULL && ready != ABSENT && s->moved[own] > ready)
        ready = s->moved[own];
    if (ready == ON_LINK)
        return ABSENT;
    if (ready == ABSENT || next < 0)
        return ready;
    size_t above = s->half + key(s, iteration, next, action.microbatch);
    double gradient = arrival(s, above, next, rank);
    if (gradient == ABSENT) {
        *missing = above;
        return ABSENT;
    }
    return gradient > ready ? gradient : ready;
}

static void wake(state *s, int rank, size_t made)
{
    if (rank >= 0 && s->waits[rank] == made) {
        s->waits[rank] = NOTHING;
        s->stack[s->height++] = rank;
    }
}

static void send(state *s, double ready, int from, int to, size_t what)
{
    if (s->status == PST_OK)
        s->status = pst__network_push(s->links, ready, from, to, what, s->err);
}

/* What `stage` made at `end` goes to where `user` is, a stage or -1. */
static void hand_on(state *s, int stage, int user, size_t what, double end)
{
    const int from = s->rank_of[stage], to = user >= 0 ? s->rank_of[user] : -1;
    if (s->links != NULL && to >= 0 && pst__network_cross(s->links, from, to))
        send(s, end, from, to, what);
    else
        wake(s, to, what);
}

/* Say that `action` ended, and let whoever waits for it go on. */
static void publish(state *s, size_t iteration, pst_action action, double end)
{
    size_t own = key(s, iteration, action.stage, action.microbatch);
    const pst_op_description *op = pst_op_describe(action.op);
    if (op->makes_output) {
        s->forward[own] = end;
        hand_on(s, action.stage, pst_schedule_next_stage(s->schedule, action.stage),
                own, end);
    } else if (op->makes_input_grad) {
        s->backward[own] = end;
        hand_on(s, action.stage, pst_schedule_previous_stage(s->schedule, action.stage),
                s->half + own, end);
    }
}

/* Beyond the two halves, the messages of EVICT and of LOAD are as long. */
static size_t evicted(const state *s, size_t own)
{
    return 2 * s->half + own;
}

static size_t loaded(const state *s, size_t own)
{
    return 3 * s->half + own;
}

/* The same as move(), where the partner is on another host. */
static void move_over_link(state *s, pst_op op, size_t own, int rank, int partner,
                           double now)
{
    if (op == PST_OP_EVICT)
        send(s, now, rank, partner, evicted(s, own));
    else if (s->moved[own] == ON_LINK)
        s->asked[own] = now;
    else
        send(s, fmax(now, s->moved[own]), partner, rank, loaded(s, own));
    s->moved[own] = ON_LINK;
}

/* EVICT and LOAD hold nobody up; what is loaded goes there and back by hops. */
static void move(state *s, size_t iteration, pst_action action, int rank, double now)
{
    if (action.op != PST_OP_EVICT && action.op != PST_OP_LOAD)
        return;
    const size_t own = key(s, iteration, action.stage, action.microbatch);
    const int partner = pst_schedule_partner(s->schedule, rank);
    double *moved = &s->moved[own];
    if (s->links != NULL && partner >= 0 && pst__network_cross(s->links, rank, partner))
        move_over_link(s, action.op, own, rank, partner, now);
    else if (action.op == PST_OP_EVICT)
        *moved = now;
    else
        *moved = fmax(now, *moved + s->hop) + s->hop;
}

/* An EVICT has arrived, at a partner who may have been asked for it already; or a
 * LOAD has. */
static void arrive_moved(state *s, const pst__message *message, double arrival)
{
    const size_t own = message->what % s->half;
    if (message->what == evicted(s, own) && s->asked[own] != ABSENT) {
        send(s, fmax(arrival, s->asked[own]), message->to, message->from,
             loaded(s, own));
        return;
    }
    s->moved[own] = arrival;
    wake(s, message->to, own);
}

/* Put the earliest message onto its link; false: there is none. */
static int carry(state *s)
{
    pst__message message;
    double arrival;
    if (s->links == NULL || s->status != PST_OK ||
        !pst__network_pop(s->links, &message, &arrival))
        return 0;
    if (message.what >= 2 * s->half) {
        arrive_moved(s, &message, arrival);
        return 1;
    }
    s->came[message.what] = arrival;
    wake(s, message.to, message.what);
    return 1;
}

/* Run `rank` until its row ends or an input is missing. */
static void run_rank(state *s, int rank)
{
    size_t length;
    const pst_action *row = pst_schedule_row(s->schedule, rank, &length);
    double *start = s->result->start[rank], *end = s->result->end[rank];
    while (s->next[rank] < s->result->count[rank]) {
        size_t at = s->next[rank], iteration = at / length, index = at % length;
        size_t together = row[index].paired && index + 1 < length ? 2 : 1;
        double begin = s->free_at[rank], cost = 0;
        size_t computing = 0;
        for (size_t k = 0; k < together; k++) {
            pst_action action = row[index + k];
            if (!pst_op_describe(action.op)->computes)
                continue;
            size_t missing;
            double ready = inputs_ready(s, iteration, action, rank, &missing);
            if (ready == ABSENT) {
                s->waits[rank] = missing;
                return;
            }
            begin = ready > begin ? ready : begin;
            cost += s->duration ? s->duration(s->duration_user, action)
                                : s->cost[action.op][action.stage];
            computing++;
        }
        if (computing == 2 && s->pair > 0)
            cost = s->pair;
        for (size_t k = 0; k < together; k++) {
            start[at + k] = begin;
            end[at + k] = begin + cost;
            if (pst_op_describe(row[index + k].op)->computes)
                publish(s, iteration, row[index + k], begin + cost);
            else
                move(s, iteration, row[index + k], rank, begin);
        }
        s->free_at[rank] = begin + cost;
        s->result->busy[rank] += cost;
        s->next[rank] = at + together;
    }
}

static pst_status name_stuck_rank(const state *s, pst_error *err)
{
    for (int rank = 0; rank < s->result->ranks; rank++) {
        if (s->next[rank] == s->result->count[rank])
            continue;
        size_t length;
        const pst_action *row = pst_schedule_row(s->schedule, rank, &length);
        char text[32];
        pst_action_text(row[s->next[rank] % length], text, sizeof text);
        return pst_error_set(
            err, PST_EDEADLOCK,
            "rank %d never gets the inputs of %s; check the schedule to "
            "see why",
            rank, text);
    }
    return PST_OK;
}

/* Most activations that a row holds; of a pair, the forward saves before the backward
 * frees. */
static int peak_of_row(const pst_action *row, size_t length)
{
    int held = 0, peak = 0;
    for (size_t i = 0; i < length; i++) {
        size_t last = row[i].paired && i + 1 < length ? i + 1 : i;
        for (size_t k = i; k <= last; k++)
            held += pst_op_describe(row[k].op)->saves;
        peak = held > peak ? held : peak;
        for (size_t k = i; k <= last; k++)
            held -= pst_op_describe(row[k].op)->frees;
        i = last;
    }
    return peak;
}

static int rank_or_none(const state *s, int stage)
{
    return stage >= 0 ? s->rank_of[stage] : -1;
}

/* The rank that uses what `action` sends, or -1. */
static int user_rank(const state *s, pst_action action)
{
    const pst_op_description *op = pst_op_describe(action.op);
    if (op->makes_output)
        return rank_or_none(s, pst_schedule_next_stage(s->schedule, action.stage));
    if (op->makes_input_grad)
        return rank_or_none(s, pst_schedule_previous_stage(s->schedule, action.stage));
    return -1;
}

/* The rank that made the input of `action`, or -1. */
static int maker_rank(const state *s, pst_action action)
{
    if (action.op == PST_OP_FORWARD)
        return rank_or_none(s, pst_schedule_previous_stage(s->schedule, action.stage));
    if (action.op == PST_OP_BACKWARD || action.op == PST_OP_BACKWARD_INPUT)
        return rank_or_none(s, pst_schedule_next_stage(s->schedule, action.stage));
    return -1;
}

/* Most messages from `from` to `to` at once: both rows are in time order, so merge. */
static int depth_between(const state *s, int from, int to)
{
    size_t from_length, to_length, used = 0;
    const pst_action *from_row = pst_schedule_row(s->schedule, from, &from_length);
    const pst_action *to_row = pst_schedule_row(s->schedule, to, &to_length);
    int depth = 0, deepest = 0;
    for (size_t i = 0; i < s->result->count[from]; i++) {
        if (user_rank(s, from_row[i % from_length]) != to)
            continue;
        double sent = s->result->end[from][i];
        while (used < s->result->count[to] && s->result->start[to][used] < sent) {
            depth -= maker_rank(s, to_row[used % to_length]) == from;
            used++;
        }
        depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

/* `seen` is room for [ranks] numbers: the last `from` that was compared with each. */
static int deepest_queue(const state *s, int *seen)
{
    int deepest = 0;
    for (int rank = 0; rank < s->result->ranks; rank++)
        seen[rank] = -1;
    for (int from = 0; from < s->result->ranks; from++) {
        size_t length;
        const pst_action *row = pst_schedule_row(s->schedule, from, &length);
        for (size_t i = 0; i < length; i++) {
            int to = user_rank(s, row[i]);
            if (to < 0 || to == from || seen[to] == from)
                continue;
            seen[to] = from;
            int depth = depth_between(s, from, to);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return deepest;
}

static void summarize(state *s)
{
    pst_simulation *r = s->result;
    for (int rank = 0; rank < r->ranks; rank++) {
        size_t length, count = r->count[rank];
        const pst_action *row = pst_schedule_row(s->schedule, rank, &length);
        r->peak_activations[rank] = peak_of_row(row, length);
        const int partner = pst_schedule_partner(s->schedule, rank);
        if (s->moved != NULL && partner >= 0)
            r->peak_activations[rank] +=
                pst_schedule_most_evicted(s->schedule, partner);
        r->ideal = fmax(r->ideal, r->busy[rank]);
        if (count == 0)
            continue;
        r->makespan = fmax(r->makespan, r->end[rank][count - 1]);
        size_t first = 0; /* a receive at the head of a row is not work yet */
        while (first + 1 < length && !pst_op_describe(row[first].op)->computes)
            first++;
        double own = r->end[rank][count - 1] - r->start[rank][first];
        r->longest_rank = fmax(r->longest_rank, own);
    }
    if (r->ideal > 0) {
        r->bubble.of_makespan = 1 - r->ideal / r->makespan;
        r->bubble.of_ideal = r->makespan / r->ideal - 1;
        r->bubble.longest_rank = 1 - r->ideal / r->longest_rank;
    }
    r->max_queue_depth = deepest_queue(s, s->stack);
}

static pst_status count_versions(state *s, pst_error *err)
{
    pst_simulation *r = s->result;
    r->updates = pst_schedule_updates(s->schedule);
    for (int stage = 0; stage < r->stages; stage++) {
        const int versions = pst_schedule_weight_versions(s->env, s->schedule, stage);
        if (versions < 0)
            return pst_error_no_memory(err, "a simulation", s->microbatches);
        if (s->rank_of[stage] < 0)
            continue;
        int *most = &r->weight_versions[s->rank_of[stage]];
        *most = versions > *most ? versions : *most;
    }
    return PST_OK;
}

static void destroy_state(state *s)
{
    for (int op = 0; op <= PST_OP_REDUCE_GRAD; op++)
        pst_release(s->env, s->cost[op]);
    pst_release(s->env, s->rank_of);
    pst_release(s->env, s->forward);
    pst_release(s->env, s->backward);
    pst_release(s->env, s->moved);
    pst_release(s->env, s->came);
    pst_release(s->env, s->asked);
    if (s->links != NULL)
        pst__network_fini(s->links);
    pst_release(s->env, s->next);
    pst_release(s->env, s->free_at);
    pst_release(s->env, s->waits);
    pst_release(s->env, s->stack);
}

/* The public struct, and the allocator that it must be given back to. */
typedef struct owned_simulation {
    pst_simulation simulation;
    pst_env env;
    int has_env;
} owned_simulation;

pst_status pst_simulate(const pst_env *env, const pst_schedule *schedule,
                        const pst_costs *costs, pst_simulation **out, pst_error *err)
{
    static const pst_costs unit_costs = {.pair = 0};
    if (costs == NULL)
        costs = &unit_costs;
    owned_simulation *owned = pst_allocate(env, sizeof *owned);
    if (owned == NULL)
        return pst_error_no_memory(err, "a simulation", sizeof *owned);
    if (env != NULL) {
        owned->env = *env;
        owned->has_env = 1;
    }
    pst_simulation *result = &owned->simulation;
    result->ranks = pst_schedule_ranks(schedule);
    result->stages = pst_schedule_stages(schedule);
    result->microbatches = pst_schedule_total_microbatches(schedule);
    result->iterations = costs->iterations > 0 ? costs->iterations : 1;
    state s = {.env = env, .schedule = schedule, .result = result, .err = err};
    pst__network links;
    pst_status status;
    if ((status = check_costs(&s, costs, err)) || (status = allocate_result(&s, err)) ||
        (status = set_network(&s, &links, costs, err)) ||
        (status = allocate_state(&s, err)))
        goto out;
    fill_costs(&s, costs);
    do
        while (s.height > 0)
            run_rank(&s, s.stack[--s.height]);
    while (carry(&s));
    status = s.status != PST_OK ? s.status : name_stuck_rank(&s, err);
    if (status == PST_OK)
        status = count_versions(&s, err);
    if (status == PST_OK)
        summarize(&s);
out:
    destroy_state(&s);
    if (status == PST_OK)
        *out = result;
    else
        pst_simulation_destroy(result);
    return status;
}

void pst_simulation_destroy(pst_simulation *simulation)
{
    if (simulation == NULL)
        return;
    owned_simulation *owned = (owned_simulation *)simulation;
    const pst_env copy = owned->env;
    const pst_env *env = owned->has_env ? &copy : NULL;
    for (int rank = 0; rank < simulation->ranks; rank++) {
        if (simulation->start != NULL)
            pst_release(env, simulation->start[rank]);
        if (simulation->end != NULL)
            pst_release(env, simulation->end[rank]);
    }
    pst_release(env, simulation->start);
    pst_release(env, simulation->end);
    pst_release(env, simulation->busy);
    pst_release(env, simulation->peak_activations);
    pst_release(env, simulation->weight_versions);
    pst_release(env, simulation->count);
    pst_release(env, simulation->link_busy);
    pst_release(env, simulation->link_wait);
    pst_release(env, owned);
}
