/* SPDX-License-Identifier: BSD-3-Clause */
/* footprint.c - one walk over the lists, in an order in which they could run. */
#include "stages/footprint.h"

#include <string.h>

#include "stages/footprint_walk.h"

/* Slice 0 of the same microbatch. */
static pst__held *first_slice(const pst__walk *w, int stage, uint32_t microbatch)
{
    return pst__held_of(w, stage,
                        microbatch - microbatch % (uint32_t)w->footprint->slices);
}

/* The `index`-th microbatch in the order of sums: ascending, but slices descending. */
static uint32_t due_at(const pst__walk *w, uint32_t index)
{
    const uint32_t slices = (uint32_t)w->footprint->slices;
    return index - index % slices + slices - 1 - index % slices;
}

static bool is_backward(int op)
{
    return op == PST_OP_BACKWARD || op == PST_OP_BACKWARD_INPUT ||
           op == PST_OP_BACKWARD_WEIGHT;
}

static void enqueue(pst__walk *w, int rank)
{
    const int ranks = w->footprint->ranks;
    if (w->queued[rank] || w->cursor[rank] == w->footprint->rank[rank].step_count)
        return;
    w->queued[rank] = true;
    w->queue[(w->queue_head + w->queue_count++) % ranks] = rank;
}

static bool receive(pst__walk *w, pst_step *step, int64_t *message)
{
    bool ok = true;
    if (*message >= 0)
        step->receive = pst__links_receive(w->links, (uint32_t)*message, &ok);
    *message = PST__LOCAL;
    return ok;
}

/* The product of the action that just ended on `rank` leaves for `stage`. */
static bool send(pst__walk *w, int rank, pst_step *step, int stage, int64_t *message)
{
    const int receiver = w->rank_of_stage[stage];
    if (receiver == rank) {
        *message = PST__LOCAL;
        return true;
    }
    uint32_t number;
    if (!pst__links_send(w->links, rank, receiver, &step->send, &number))
        return false;
    *message = number;
    enqueue(w, receiver);
    return true;
}

/* The buffer that slices share. */
static bool begin_slice(pst__walk *w, int rank, pst_step *step)
{
    const int stage = step->action.stage;
    pst__held *first = first_slice(w, stage, step->action.microbatch);
    if (w->footprint->slices == 1)
        return true;
    if (first->sequence == PST__NONE &&
        !pst__walk_take(w, rank, rank, w->stages[stage].sequence_bytes,
                        &first->sequence))
        return false;
    step->sequence = first->sequence;
    return true;
}

/* Is `step` the last that uses it? */
static void end_slice(pst__walk *w, int rank, const pst_step *step)
{
    const uint32_t slices = (uint32_t)w->footprint->slices;
    const uint32_t last = w->footprint->training ? 0 : slices - 1;
    if (step->action.microbatch % slices == last)
        pst__walk_release(
            w, rank,
            &first_slice(w, step->action.stage, step->action.microbatch)->sequence);
}

static bool begin_forward(pst__walk *w, int rank, pst_step *step, pst__held *h)
{
    const int stage = step->action.stage;
    const pst_stage *s = &w->stages[stage];
    const int next = pst_schedule_next_stage(w->schedule, stage);
    if (next >= 0) {
        if (!pst__walk_take(w, rank, w->rank_of_stage[next], s->output_bytes,
                            &step->output))
            return false;
        pst__held_of(w, next, step->action.microbatch)->input = step->output;
    }
    step->input = h->input;
    if (!w->footprint->training)
        return true;
    if (!pst__walk_take(w, rank, rank, s->saved_for_input_bytes, &h->saved_for_input) ||
        !pst__walk_take(w, rank, rank, s->saved_for_weight_bytes, &h->saved_for_weight))
        return false;
    step->saved_for_input = h->saved_for_input;
    step->saved_for_weight = h->saved_for_weight;
    return true;
}

static bool begin_backward_input(pst__walk *w, int rank, pst_step *step, pst__held *h)
{
    const int stage = step->action.stage;
    const pst_stage *s = &w->stages[stage];
    const int previous = pst_schedule_previous_stage(w->schedule, stage);
    if (previous >= 0) {
        if (!pst__walk_take(w, rank, w->rank_of_stage[previous], s->input_bytes,
                            &step->input_grad))
            return false;
        pst__held_of(w, previous, step->action.microbatch)->output_grad =
            step->input_grad;
    }
    if (!pst__walk_take(w, rank, rank, s->kept_bytes, &h->kept))
        return false;
    step->input = h->input;
    step->output_grad = h->output_grad;
    step->saved_for_input = h->saved_for_input;
    step->saved_for_weight = h->saved_for_weight;
    step->kept = h->kept;
    return true;
}

static bool add_merge(pst__walk *w, int rank, pst_step *step, uint32_t slot)
{
    pst_rank_footprint *row = &w->footprint->rank[rank];
    if (row->merge_count == w->merge_room[rank]) {
        const size_t room = row->merge_count;
        const size_t more = room ? 2 * room : 8;
        void *grown =
            room ? pst_grow(&w->footprint->env, row->merges, room * sizeof *row->merges,
                            more * sizeof *row->merges)
                 : pst_allocate_array(&w->footprint->env, more, sizeof *row->merges);
        if (!grown)
            return false;
        row->merges = grown;
        w->merge_room[rank] = more;
    }
    row->merges[row->merge_count++] = slot;
    step->merge_count++;
    return true;
}

/* Gradients are summed in one order: see stage.h. */
static bool begin_backward_weight(pst__walk *w, int rank, pst_step *step, pst__held *h)
{
    const int stage = step->action.stage;
    const pst_stage *s = &w->stages[stage];
    step->input = h->input;
    step->output_grad = h->output_grad;
    step->saved_for_weight = h->saved_for_weight;
    step->kept = h->kept;
    if (!s->backward_weight || s->gradient_count == 0)
        return true;
    uint32_t *due = &w->next_merge[stage];
    if (step->action.microbatch != due_at(w, *due)) {
        if (!pst__walk_take(w, rank, rank, s->gradient_count * sizeof(float),
                            &h->waiting))
            return false;
        step->waiting = h->waiting;
        return true;
    }
    step->merge_first = (uint32_t)w->footprint->rank[rank].merge_count;
    const uint32_t microbatches = (uint32_t)w->footprint->microbatches;
    for (++*due; *due < microbatches; ++*due) {
        pst__held *early = pst__held_of(w, stage, due_at(w, *due));
        if (early->waiting == PST__NONE)
            return true;
        if (!add_merge(w, rank, step, early->waiting))
            return false;
        pst__walk_release(w, rank, &early->waiting);
    }
    return true;
}

static void end_forward(pst__walk *w, int rank, const pst_stage *s, pst__held *h)
{
    if (!w->footprint->training || s->input_held == PST_HELD_TO_FORWARD)
        pst__walk_release(w, rank, &h->input);
}

static void end_backward_input(pst__walk *w, int rank, const pst_stage *s, pst__held *h)
{
    pst__walk_release(w, rank, &h->saved_for_input);
    if (s->input_held != PST_HELD_TO_BACKWARD_WEIGHT)
        pst__walk_release(w, rank, &h->input);
    if (s->output_grad_held != PST_HELD_TO_BACKWARD_WEIGHT)
        pst__walk_release(w, rank, &h->output_grad);
}

static void end_backward_weight(pst__walk *w, int rank, pst__held *h)
{
    pst__walk_release(w, rank, &h->saved_for_weight);
    pst__walk_release(w, rank, &h->kept);
    pst__walk_release(w, rank, &h->input);
    pst__walk_release(w, rank, &h->output_grad);
}

/* Has what the action needs been made? */
static bool is_ready(const pst__walk *w, const pst_action *action)
{
    const pst__held *h = pst__held_of(w, action->stage, action->microbatch);
    if (action->op == PST_OP_FORWARD)
        return pst_schedule_previous_stage(w->schedule, action->stage) < 0 ||
               h->activation != PST__NOT_YET;
    if (action->op != PST_OP_BACKWARD && action->op != PST_OP_BACKWARD_INPUT)
        return true;
    return pst_schedule_next_stage(w->schedule, action->stage) < 0 ||
           h->gradient != PST__NOT_YET;
}

/* False: no memory. */
static bool walk_action(pst__walk *w, int rank, pst_step *step)
{
    const int stage = step->action.stage;
    const uint32_t microbatch = step->action.microbatch;
    const pst_stage *s = &w->stages[stage];
    pst__held *h = pst__held_of(w, stage, microbatch);
    bool ok = true;
    pst__walk_use_weights(w, step, h);
    switch ((pst_op)step->action.op) {
    case PST_OP_FORWARD:
        ok = receive(w, step, &h->activation) && begin_slice(w, rank, step) &&
             begin_forward(w, rank, step, h);
        end_forward(w, rank, s, h);
        if (!w->footprint->training)
            end_slice(w, rank, step);
        break;
    case PST_OP_BACKWARD:
        ok = receive(w, step, &h->gradient) && begin_slice(w, rank, step) &&
             begin_backward_input(w, rank, step, h) &&
             begin_backward_weight(w, rank, step, h);
        end_backward_input(w, rank, s, h);
        end_slice(w, rank, step);
        end_backward_weight(w, rank, h);
        pst__walk_end_use(w, rank, stage, h);
        break;
    case PST_OP_BACKWARD_INPUT:
        ok = receive(w, step, &h->gradient) && begin_slice(w, rank, step) &&
             begin_backward_input(w, rank, step, h);
        end_backward_input(w, rank, s, h);
        end_slice(w, rank, step);
        break;
    case PST_OP_BACKWARD_WEIGHT:
        ok = begin_backward_weight(w, rank, step, h);
        end_backward_weight(w, rank, h);
        pst__walk_end_use(w, rank, stage, h);
        break;
    case PST_OP_EVICT:
        ok = pst__walk_evict(w, rank, s, step, h);
        break;
    case PST_OP_LOAD:
        ok = pst__walk_load(w, rank, s, step, h);
        break;
    case PST_OP_STEP:
        ok = pst__walk_update(w, rank, step);
        break;
    default:
        break;
    }
    if (!ok)
        return false;
    pst__links_end_action(w->links, rank);
    w->cursor[rank]++;
    const pst_op_description *op = pst_op_describe(step->action.op);
    const int next = pst_schedule_next_stage(w->schedule, stage);
    const int previous = pst_schedule_previous_stage(w->schedule, stage);
    if (op->makes_output && next >= 0)
        return send(w, rank, step, next,
                    &pst__held_of(w, next, microbatch)->activation);
    if (op->makes_input_grad && previous >= 0)
        return send(w, rank, step, previous,
                    &pst__held_of(w, previous, microbatch)->gradient);
    return true;
}

static pst_status walk_all(pst__walk *w, pst_error *err)
{
    pst_footprint *f = w->footprint;
    for (int rank = 0; rank < f->ranks; rank++)
        enqueue(w, rank);
    while (w->queue_count > 0) {
        const int rank = w->queue[w->queue_head];
        w->queue_head = (w->queue_head + 1) % f->ranks;
        w->queue_count--;
        w->queued[rank] = false;
        const pst_rank_footprint *row = &f->rank[rank];
        while (w->cursor[rank] < row->step_count &&
               is_ready(w, &row->steps[w->cursor[rank]].action))
            if (!walk_action(w, rank, &row->steps[w->cursor[rank]]))
                return pst_error_no_memory(err, "the footprint of a schedule", 0);
    }
    for (int rank = 0; rank < f->ranks; rank++)
        if (w->cursor[rank] < f->rank[rank].step_count) {
            char text[32];
            return pst_error_set(
                err, PST_EDEADLOCK, "rank %d would wait for ever before %s", rank,
                pst_action_text(f->rank[rank].steps[w->cursor[rank]].action, text,
                                sizeof text));
        }
    return PST_OK;
}

/* The actions of each row but for messages, with nothing assigned yet. */
static bool copy_rows(pst_footprint *f, const pst_schedule *schedule)
{
    for (int rank = 0; rank < f->ranks; rank++) {
        size_t count;
        const pst_action *row = pst_schedule_row(schedule, rank, &count);
        pst_rank_footprint *own = &f->rank[rank];
        if (count >= PST__NONE)
            return false;
        own->steps = pst_allocate_array(&f->env, count, sizeof *own->steps);
        if (!own->steps)
            return false;
        for (size_t i = 0; i < count; i++) {
            if (!pst_op_describe(row[i].op)->runs)
                continue;
            pst_step *step = &own->steps[own->step_count++];
            memset(step, 0xff, sizeof *step);
            step->action = row[i];
            step->merge_first = 0;
            step->merge_count = 0;
            f->training |= is_backward(row[i].op);
        }
    }
    return true;
}

static bool prepare(pst__walk *w, const pst_schedule *schedule)
{
    pst_footprint *f = w->footprint;
    const size_t ranks = (size_t)f->ranks;
    const size_t stages = (size_t)f->stages;
    f->rank = pst_allocate_array(&f->env, ranks, sizeof *f->rank);
    w->cursor = pst_allocate_array(&f->env, ranks, sizeof *w->cursor);
    w->queue = pst_allocate_array(&f->env, ranks, sizeof *w->queue);
    w->queued = pst_allocate_array(&f->env, ranks, sizeof *w->queued);
    w->slots = pst_allocate_array(&f->env, ranks, sizeof *w->slots);
    w->away = pst_allocate_array(&f->env, ranks, sizeof *w->away);
    w->newest = pst_allocate_array(&f->env, stages, sizeof *w->newest);
    w->merge_room = pst_allocate_array(&f->env, ranks, sizeof *w->merge_room);
    w->next_merge = pst_allocate_array(&f->env, stages, sizeof *w->next_merge);
    if ((size_t)f->microbatches > SIZE_MAX / sizeof *w->held / stages)
        return false;
    const size_t pairs = stages * (size_t)f->microbatches;
    w->held = pst_allocate_array(&f->env, pairs, sizeof *w->held);
    w->links = pst__links_create(&f->env, f->ranks);
    if (!f->rank || !w->cursor || !w->queue || !w->queued || !w->slots || !w->away ||
        !w->newest || !w->merge_room || !w->next_merge || !w->held || !w->links)
        return false;
    memset(w->held, 0xff, pairs * sizeof *w->held); /* PST__NONE and PST__NOT_YET */
    if (!pst__walk_prepare_versions(w))
        return false;
    for (size_t stage = 0; stage < stages; stage++) {
        size_t *scratch = &f->rank[w->rank_of_stage[stage]].scratch_bytes;
        if (w->stages[stage].scratch_bytes > *scratch)
            *scratch = w->stages[stage].scratch_bytes;
    }
    for (size_t rank = 0; rank < ranks; rank++)
        if (!pst__slots_init(&w->slots[rank], &f->env, f->rank[rank].scratch_bytes) ||
            !pst__slots_init(&w->away[rank], &f->env, 0))
            return false;
    return copy_rows(f, schedule);
}

/* Move what the walk found out into the footprint. */
static bool conclude(pst__walk *w)
{
    pst_footprint *f = w->footprint;
    for (int rank = 0; rank < f->ranks; rank++) {
        const pst_slots *slots = &w->slots[rank];
        pst_rank_footprint *row = &f->rank[rank];
        row->bytes = slots->bytes;
        row->slot_offset =
            pst_allocate_array(&f->env, slots->count, sizeof *row->slot_offset);
        if (!row->slot_offset)
            return false;
        row->slot_count = slots->count;
        for (uint32_t i = 0; i < slots->count; i++)
            row->slot_offset[i] = slots->slot[i].offset;
    }
    if (!pst__walk_place_evicted(w))
        return false;
    f->links = pst__links_take_all(w->links, &f->link_count);
    return true;
}

static void finish(pst__walk *w)
{
    const pst_env *env = &w->footprint->env;
    for (int rank = 0; w->slots && rank < w->footprint->ranks; rank++)
        pst__slots_fini(&w->slots[rank]);
    for (int rank = 0; w->away && rank < w->footprint->ranks; rank++)
        pst__slots_fini(&w->away[rank]);
    pst__links_destroy(w->links);
    pst_release(env, w->held);
    pst_release(env, w->next_merge);
    pst_release(env, w->merge_room);
    pst_release(env, w->versions);
    pst_release(env, w->newest);
    pst_release(env, w->away);
    pst_release(env, w->slots);
    pst_release(env, w->queued);
    pst_release(env, w->queue);
    pst_release(env, w->cursor);
}

pst_status pst__footprint_create(const pst_env *env, const pst_schedule *schedule,
                                 const pst_stage *stages, const int *rank_of_stage,
                                 pst_footprint **out, pst_error *err)
{
    pst_footprint *f = pst_allocate(env, sizeof *f);
    if (!f)
        return pst_error_no_memory(err, "a footprint", sizeof *f);
    if (env)
        f->env = *env;
    f->ranks = pst_schedule_ranks(schedule);
    f->stages = pst_schedule_stages(schedule);
    f->microbatches = pst_schedule_microbatches(schedule);
    f->updates = pst_schedule_updates(schedule);
    f->slices = pst_schedule_slices(schedule);
    pst__walk w = {.schedule = schedule,
                   .stages = stages,
                   .rank_of_stage = rank_of_stage,
                   .footprint = f};
    pst_status status = prepare(&w, schedule) ? walk_all(&w, err) : PST_ENOMEM;
    if (status == PST_OK && !conclude(&w))
        status = PST_ENOMEM;
    if (status == PST_ENOMEM)
        pst_error_no_memory(err, "the footprint of a schedule", 0);
    finish(&w);
    if (status == PST_OK)
        *out = f;
    else
        pst__footprint_destroy(f);
    return status;
}

void pst__footprint_destroy(pst_footprint *f)
{
    if (!f)
        return;
    const pst_env env = f->env;
    for (int rank = 0; f->rank && rank < f->ranks; rank++) {
        pst_release(&env, f->rank[rank].steps);
        pst_release(&env, f->rank[rank].merges);
        pst_release(&env, f->rank[rank].slot_offset);
        pst_release(&env, f->rank[rank].away_offset);
    }
    pst_release(&env, f->rank);
    pst_release(&env, f->links);
    pst_release(&env, f);
}
