/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_footprint.c - slots, rings and arenas that lists need, against a brute-force
 * look at which actions must have ended before which others can start.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/registry.h>
#include <penstock/schedule_csv.h>
#include <penstock/simulate.h>

#include "stages/footprint.h"
#include "tests/stages/toy.h"
#include "tests/suite.h"

enum { ACTIONS = 512, BUFFERS = 2048 };

static toy t;

/* Stages with these sizes and no others. */
static void set_sizes(pst_stage *stages, int count, const pst_stage *sizes)
{
    for (int s = 0; s < count; s++) {
        stages[s] = *sizes;
        stages[s].forward = t.stage[0].forward;
        stages[s].backward_input = t.stage[0].backward_input;
        stages[s].backward_weight = t.stage[0].backward_weight;
        if (s == 0)
            stages[s].input_bytes = 0;
        if (s + 1 == count)
            stages[s].output_bytes = 0;
    }
}

static pst_footprint *plan(const pst_schedule *schedule, const pst_stage *stages,
                           const int *rank_of_stage)
{
    pst_error err = PST_ERROR_INIT;
    pst_footprint *f = NULL;
    const pst_status status =
        pst__footprint_create(NULL, schedule, stages, rank_of_stage, &f, &err);
    ck_assert_msg(status == PST_OK, "%s", err.text);
    return f;
}

/* ---- how many slots ------------------------------------------------------ */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Slots of each rank where only one kind of buffer has a size. */
static void count_slots(const char *name, int p, int m, const pst_stage *sizes,
                        int (*wanted)(int p, int m, int rank))
{
    pst_schedule *schedule = toy_named(name, p, m);
    pst_stage stages[8];
    toy_init(&t, &(toy_shape){.stages = p, .ranks = p});
    set_sizes(stages, p, sizes);
    pst_footprint *f = plan(schedule, stages, t.rank_of_stage);
    ck_assert(f->training);
    ck_assert_int_eq(f->microbatches, m);
    for (int rank = 0; rank < p; rank++) {
        ck_assert_uint_eq(f->rank[rank].slot_count, (unsigned)wanted(p, m, rank));
        ck_assert_uint_eq(f->rank[rank].bytes, 128u * (unsigned)wanted(p, m, rank));
        ck_assert_uint_eq(f->rank[rank].step_count, 2u * (unsigned)m);
        ck_assert_uint_eq(f->rank[rank].merge_count, 0);
    }
    pst__footprint_destroy(f);
    pst_schedule_destroy(schedule);
}

static int all_of_them(int p, int m, int rank)
{
    (void)p;
    (void)rank;
    return m;
}

static int those_in_flight(int p, int m, int rank)
{
    return least(p - rank, m);
}

static int a_single_one(int p, int m, int rank)
{
    (void)p;
    (void)m;
    (void)rank;
    return 1;
}

START_TEST(test_saved_buffers)
{
    const pst_stage for_input = {.saved_for_input_bytes = 100};
    const pst_stage for_weight = {.saved_for_weight_bytes = 128};
    const pst_stage kept = {.kept_bytes = 65};
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 9; m++) {
            count_slots("gpipe", p, m, &for_input, all_of_them);
            count_slots("gpipe", p, m, &for_weight, all_of_them);
            count_slots("gpipe", p, m, &kept, a_single_one);
            count_slots("1f1b", p, m, &for_input, those_in_flight);
            count_slots("1f1b", p, m, &for_weight, those_in_flight);
            count_slots("1f1b", p, m, &kept, a_single_one);
        }
}
END_TEST

/* What the simulator says that a rank holds at most is what it gets, for every kind. */
START_TEST(test_peaks)
{
    enum { MOST_CHUNKS = 4 };
    const pst_schedule_kind *kind = pst_schedule_kind_at((size_t)_i);
    const pst_stage sizes = {.saved_for_weight_bytes = 64};
    pst_stage stages[8 * MOST_CHUNKS];
    set_sizes(stages, 8 * MOST_CHUNKS, &sizes);
    for (int p = 2; p <= (kind->uses_costs ? 4 : 8); p += 2)
        for (int m = 2 * p; m <= 4 * p; m += p) {
            const pst_shape shape = {.ranks = p, .microbatches = m};
            int rank_of_stage[8 * MOST_CHUNKS];
            pst_error err = PST_ERROR_INIT;
            pst_schedule *schedule = NULL;
            pst_simulation *s = NULL;
            pst_schedule_create(NULL, kind->name, &shape, &schedule, &err);
            ck_assert_msg(schedule != NULL, "%s", err.text);
            pst_simulate(NULL, schedule, NULL, &s, &err);
            ck_assert_msg(s != NULL, "%s", err.text);
            for (int stage = 0; stage < s->stages; stage++)
                rank_of_stage[stage] = pst_schedule_rank_of(schedule, stage);
            pst_footprint *f = plan(schedule, stages, rank_of_stage);
            for (int rank = 0; rank < p && f->training; rank++)
                ck_assert_msg(
                    f->rank[rank].bytes == 64 * (size_t)s->peak_activations[rank],
                    "%s p=%d m=%d: rank %d has %zu bytes for %d", kind->name, p, m,
                    rank, f->rank[rank].bytes, s->peak_activations[rank]);
            pst__footprint_destroy(f);
            pst_simulation_destroy(s);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* As many old versions of the weights stay as the simulator says, but for the newest.
 */
START_TEST(test_versions)
{
    static const char *const names[] = {"pipedream", "pipedream-2bw"};
    const pst_stage sizes = {.weight_bytes = 64};
    pst_stage stages[8];
    set_sizes(stages, 8, &sizes);
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 3 * p; m++) {
            pst_schedule *schedule = toy_named(names[_i], p, m);
            toy_init(&t, &(toy_shape){.stages = p, .ranks = p});
            pst_footprint *f = plan(schedule, stages, t.rank_of_stage);
            for (int rank = 0; rank < p; rank++)
                ck_assert_int_eq((int)f->rank[rank].bytes / 64,
                                 pst_schedule_weight_versions(NULL, schedule, rank) -
                                     1);
            pst__footprint_destroy(f);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* What the simulator counts of a list is what its arena has room for; and that does not
 * grow with the number of microbatches where the schedule says so. */
static const struct {
    const char *name;
    int chunks;
    bool grows;
} peaks[] = {
    {"1f1b", 1, false}, {"zb-h1", 1, false}, {"zb-v", 2, false}, {"gpipe", 1, true}};

static size_t peak_bytes(const char *name, int chunks, int m)
{
    const pst_shape shape = {.ranks = 4, .microbatches = m, .chunks = chunks};
    const pst_stage sizes = {.saved_for_weight_bytes = 64};
    pst_schedule *schedule = NULL;
    pst_simulation *simulation = NULL;
    pst_stage stages[8];
    int rank_of_stage[8];
    size_t largest = 0;
    ck_assert_int_eq(pst_schedule_create(NULL, name, &shape, &schedule, NULL), PST_OK);
    ck_assert_int_eq(pst_simulate(NULL, schedule, NULL, &simulation, NULL), PST_OK);
    toy_init(&t, &(toy_shape){.stages = 1, .ranks = 1});
    set_sizes(stages, 4 * chunks, &sizes);
    for (int s = 0; s < 4 * chunks; s++)
        rank_of_stage[s] = pst_schedule_rank_of(schedule, s);
    pst_footprint *f = plan(schedule, stages, rank_of_stage);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_uint_eq(f->rank[rank].bytes,
                          64 * (size_t)simulation->peak_activations[rank]);
        if (f->rank[rank].bytes > largest)
            largest = f->rank[rank].bytes;
    }
    pst__footprint_destroy(f);
    pst_simulation_destroy(simulation);
    pst_schedule_destroy(schedule);
    return largest;
}

/* The largest arena where all kinds of buffers have a size. */
static size_t whole_bytes(const char *name, int chunks, int m)
{
    const pst_shape shape = {.ranks = 4, .microbatches = m, .chunks = chunks};
    const pst_stage sizes = {.input_bytes = 640,
                             .output_bytes = 640,
                             .saved_for_input_bytes = 1280,
                             .saved_for_weight_bytes = 6400,
                             .kept_bytes = 3200,
                             .scratch_bytes = 640,
                             .gradient_count = 320};
    pst_schedule *schedule = NULL;
    pst_stage stages[8];
    int rank_of_stage[8];
    size_t most = 0;
    ck_assert_int_eq(pst_schedule_create(NULL, name, &shape, &schedule, NULL), PST_OK);
    toy_init(&t, &(toy_shape){.stages = 1, .ranks = 1});
    set_sizes(stages, 4 * chunks, &sizes);
    for (int s = 0; s < 4 * chunks; s++)
        rank_of_stage[s] = pst_schedule_rank_of(schedule, s);
    pst_footprint *f = plan(schedule, stages, rank_of_stage);
    for (int rank = 0; rank < 4; rank++)
        most = f->rank[rank].bytes > most ? f->rank[rank].bytes : most;
    pst__footprint_destroy(f);
    pst_schedule_destroy(schedule);
    return most;
}

START_TEST(test_growth)
{
    const char *name = peaks[_i].name;
    const int chunks = peaks[_i].chunks;
    const size_t few = peak_bytes(name, chunks, 8);
    ck_assert_uint_eq(peak_bytes(name, chunks, 32), peaks[_i].grows ? 4 * few : few);
    ck_assert_uint_eq(peak_bytes(name, chunks, 128), peaks[_i].grows ? 16 * few : few);
    const double whole = (double)whole_bytes(name, chunks, 8);
    for (int m = 32; m <= 128; m *= 4)
        if (peaks[_i].grows)
            ck_assert_double_gt((double)whole_bytes(name, chunks, m), 0.1 * m * whole);
        else
            ck_assert_double_le((double)whole_bytes(name, chunks, m), 1.05 * whole);
}
END_TEST

/* Waiting gradients: W's in descending order keep all but the last. */
START_TEST(test_waiting)
{
    const pst_stage sizes = {.gradient_count = 10};
    pst_schedule *schedule =
        toy_parse("0F0,0F1,0F2,0F3,0I0,0I1,0I2,0I3,0W3,0W2,0W1,0W0\n");
    pst_stage stages[1];
    const int rank_of_stage[1] = {0};
    toy_init(&t, &(toy_shape){.stages = 1, .ranks = 1});
    set_sizes(stages, 1, &sizes);
    pst_footprint *f = plan(schedule, stages, rank_of_stage);
    const pst_rank_footprint *row = &f->rank[0];
    ck_assert_uint_eq(row->slot_count, 3);
    ck_assert_uint_eq(row->bytes, 3 * 64);
    ck_assert_uint_eq(row->merge_count, 3);
    ck_assert_uint_eq(row->steps[11].waiting, PST__NONE);
    ck_assert_uint_eq(row->steps[11].merge_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        /* microbatches 1, 2, 3 were computed by steps 10, 9, 8 */
        ck_assert_uint_eq(row->steps[10 - i].merge_count, 0);
        ck_assert_uint_eq(row->merges[row->steps[11].merge_first + i],
                          row->steps[10 - i].waiting);
    }
    pst__footprint_destroy(f);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Microbatches whose slices have begun to go forward and not all gone back. */
static unsigned most_begun(const pst_rank_footprint *row, uint32_t slices)
{
    unsigned begun = 0, most = 0;
    for (size_t i = 0; i < row->step_count; i++) {
        const pst_action *a = &row->steps[i].action;
        if (a->microbatch % slices == 0 && a->op == PST_OP_FORWARD)
            begun++;
        most = begun > most ? begun : most;
        if (a->microbatch % slices == 0 && a->op == PST_OP_BACKWARD)
            begun--;
    }
    return most;
}

/* No more shared buffers than microbatches at work, and no gradient ever waits. */
START_TEST(test_sequences)
{
    const pst_stage sizes = {.sequence_bytes = 100, .gradient_count = 1000};
    for (int p = 1; p <= 4; p++)
        for (int m = 1; m <= 5; m++) {
            pst_stage stages[4];
            toy_init(&t, &(toy_shape){.stages = p, .ranks = p, .slices = _i});
            set_sizes(stages, p, &sizes);
            pst_schedule *schedule = toy_sliced(&t, p, m);
            pst_footprint *f = plan(schedule, stages, t.rank_of_stage);
            ck_assert_int_eq(f->slices, _i);
            for (int rank = 0; rank < p; rank++) {
                const pst_rank_footprint *row = &f->rank[rank];
                const unsigned begun = _i == 1 ? 0 : most_begun(row, (uint32_t)_i);
                ck_assert_uint_eq(row->slot_count, begun);
                ck_assert_uint_eq(row->bytes, 128 * begun);
                ck_assert_uint_eq(row->merge_count, 0);
            }
            pst__footprint_destroy(f);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* Without backward a buffer is free behind the last slice's F. */
START_TEST(test_sequences_forward_only)
{
    const pst_stage sizes = {.sequence_bytes = 64};
    const pst_csv_options options = {.slices = 2};
    static const char list[] = "0F0,0F2,0F1,0F4,0F3,0F5\n";
    pst_schedule *schedule = NULL;
    pst_stage stages[1];
    const int rank_of_stage[1] = {0};
    pst_schedule_parse_csv(NULL, "by hand", list, sizeof list - 1, &options, &schedule,
                           NULL);
    toy_init(&t, &(toy_shape){.stages = 1, .ranks = 1});
    set_sizes(stages, 1, &sizes);
    pst_footprint *f = plan(schedule, stages, rank_of_stage);
    const pst_step *steps = f->rank[0].steps;
    ck_assert_uint_eq(f->rank[0].slot_count, 2);
    ck_assert_uint_eq(steps[0].sequence, steps[2].sequence);
    ck_assert_uint_eq(steps[1].sequence, steps[4].sequence);
    ck_assert_uint_ne(steps[0].sequence, steps[1].sequence);
    ck_assert_uint_eq(steps[3].sequence, steps[0].sequence);
    ck_assert_uint_eq(steps[5].sequence, steps[3].sequence);
    pst__footprint_destroy(f);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(test_forward_only)
{
    const pst_stage sizes = {.input_bytes = 64,
                             .output_bytes = 64,
                             .saved_for_input_bytes = 64,
                             .kept_bytes = 64,
                             .scratch_bytes = 10,
                             .input_held = PST_HELD_TO_BACKWARD_WEIGHT};
    pst_schedule *schedule = toy_parse("0F0,0F1,0F2\n1F0,1F1,1F2\n");
    pst_stage stages[2];
    toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2});
    set_sizes(stages, 2, &sizes);
    pst_footprint *f = plan(schedule, stages, t.rank_of_stage);
    ck_assert(!f->training);
    ck_assert_uint_eq(f->rank[0].slot_count, 0);
    ck_assert_uint_eq(f->rank[0].bytes, 64);
    ck_assert_uint_eq(f->rank[1].slot_count, 3);
    ck_assert_uint_eq(f->link_count, 1);
    ck_assert_int_eq(f->links[0].sender, 0);
    ck_assert_int_eq(f->links[0].receiver, 1);
    ck_assert_uint_eq(f->links[0].capacity, 3);
    ck_assert_uint_eq(f->links[0].arrived, 0);
    pst__footprint_destroy(f);
    pst_schedule_destroy(schedule);
}
END_TEST

/* gpipe's sender may run to its end; 1f1b's hears back in between. */
START_TEST(test_links)
{
    static const char *const names[] = {"gpipe", "1f1b"};
    for (int kind = 0; kind < 2; kind++)
        for (int m = 1; m <= 9; m++) {
            pst_schedule *schedule = toy_named(names[kind], 3, m);
            toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3});
            pst_footprint *f = plan(schedule, t.stage, t.rank_of_stage);
            ck_assert_uint_eq(f->link_count, 4);
            for (uint32_t i = 0; i < 4; i++) {
                const pst_link *link = &f->links[i];
                const bool onward = link->sender < link->receiver;
                const int depth = kind == 0 ? m : least(m, 3 - link->sender);
                if (onward)
                    ck_assert_uint_eq(link->capacity, (unsigned)depth);
                ck_assert_uint_ge(link->capacity, 1);
                ck_assert_uint_le(link->capacity, (unsigned)m);
                ck_assert_uint_eq(link->arrived, 0);
            }
            pst__footprint_destroy(f);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

/* ---- brute force --------------------------------------------------------- */

typedef struct node {
    int rank;
    const pst_step *step;
} node;

/* From the start of `first` to the end of `last`, one slot of `rank` is this buffer's.
 */
typedef struct life {
    int rank;
    uint32_t slot;
    int first;
    int last;
} life;

typedef struct look {
    const pst_footprint *f;
    const pst_stage *stages;
    node nodes[ACTIONS];
    int node_count;
    bool before[ACTIONS][ACTIONS]; /* [a][b]: a ends before b starts           */
    life lives[BUFFERS];
    int life_count;
} look;

static look view;

static bool does(const pst_step *step, int op)
{
    return step->action.op == op ||
           (step->action.op == PST_OP_BACKWARD && op != PST_OP_FORWARD);
}

static int find_node(int op, int stage, uint32_t microbatch)
{
    for (int i = 0; i < view.node_count; i++) {
        const pst_step *step = view.nodes[i].step;
        if (step->action.stage == stage && step->action.microbatch == microbatch &&
            does(step, op))
            return i;
    }
    ck_abort_msg("an action is missing");
    return -1;
}

static void add_nodes(void)
{
    view.node_count = 0;
    for (int rank = 0; rank < view.f->ranks; rank++)
        for (size_t i = 0; i < view.f->rank[rank].step_count; i++) {
            ck_assert_int_lt(view.node_count, ACTIONS);
            view.nodes[view.node_count++] =
                (node){.rank = rank, .step = &view.f->rank[rank].steps[i]};
        }
}

/* Rows and messages, and what follows from them. */
static void find_order(void)
{
    const int n = view.node_count;
    memset(view.before, 0, sizeof view.before);
    for (int i = 0; i + 1 < n; i++)
        view.before[i][i + 1] = view.nodes[i].rank == view.nodes[i + 1].rank;
    for (int s = 0; s + 1 < view.f->stages; s++)
        for (uint32_t b = 0; b < (uint32_t)view.f->microbatches; b++) {
            view.before[find_node(PST_OP_FORWARD, s, b)]
                       [find_node(PST_OP_FORWARD, s + 1, b)] = true;
            view.before[find_node(PST_OP_BACKWARD_INPUT, s + 1, b)]
                       [find_node(PST_OP_BACKWARD_INPUT, s, b)] = true;
        }
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; view.before[i][k] && j < n; j++)
                view.before[i][j] |= view.before[k][j];
}

static void add_life(int rank, uint32_t slot, size_t bytes, int first, int last)
{
    ck_assert_int_eq(slot == PST__NONE, bytes == 0);
    if (bytes == 0)
        return;
    ck_assert_uint_lt(slot, view.f->rank[rank].slot_count);
    ck_assert_int_lt(view.life_count, BUFFERS);
    view.lives[view.life_count++] = (life){rank, slot, first, last};
}

static int last_use(pst_held held, const int *nodes)
{
    return nodes[held == PST_HELD_TO_FORWARD          ? PST_OP_FORWARD
                 : held == PST_HELD_TO_BACKWARD_INPUT ? PST_OP_BACKWARD_INPUT
                                                      : PST_OP_BACKWARD_WEIGHT];
}

/* The step that adds a waiting buffer to the gradients: the first merge behind it. */
static int merge_of(int rank, int waiting_node)
{
    const uint32_t slot = view.nodes[waiting_node].step->waiting;
    const pst_rank_footprint *row = &view.f->rank[rank];
    for (int i = waiting_node + 1; i < view.node_count && view.nodes[i].rank == rank;
         i++) {
        const pst_step *step = view.nodes[i].step;
        for (uint32_t k = 0; k < step->merge_count; k++)
            if (row->merges[step->merge_first + k] == slot)
                return i;
    }
    ck_abort_msg("a waiting gradient is never added");
    return -1;
}

static void add_waiting(int rank, const int *nodes, const pst_stage *s)
{
    const int w = nodes[PST_OP_BACKWARD_WEIGHT];
    const pst_step *step = view.nodes[w].step;
    if (step->waiting != PST__NONE)
        add_life(rank, step->waiting, s->gradient_count * sizeof(float), w,
                 merge_of(rank, w));
}

/* What the slices of a microbatch share, from slice 0 to slice 0. */
static void add_sequence(int rank, int stage, uint32_t first)
{
    const pst_stage *s = &view.stages[stage];
    const int f = find_node(PST_OP_FORWARD, stage, first);
    const int i = find_node(PST_OP_BACKWARD_INPUT, stage, first);
    const uint32_t slices = (uint32_t)view.f->slices;
    const uint32_t slot = view.nodes[f].step->sequence;
    for (uint32_t b = first; b < first + slices; b++) {
        const int there = find_node(PST_OP_FORWARD, stage, b);
        const int back = find_node(PST_OP_BACKWARD_INPUT, stage, b);
        ck_assert_uint_eq(view.nodes[there].step->sequence, slot);
        ck_assert_uint_eq(view.nodes[back].step->sequence, slot);
        ck_assert(f <= there && back <= i);
    }
    add_life(rank, slot, slices > 1 ? s->sequence_bytes : 0, f, i);
}

/* All buffers of one stage and microbatch. */
static void add_lives(const int *rank_of_stage, int stage, uint32_t b)
{
    const pst_stage *s = &view.stages[stage];
    const int rank = rank_of_stage[stage];
    int nodes[PST_OP_COUNT];
    for (int op = PST_OP_FORWARD; op <= PST_OP_BACKWARD_WEIGHT; op++)
        if (op != PST_OP_BACKWARD)
            nodes[op] = find_node(op, stage, b);
    const int f = nodes[PST_OP_FORWARD];
    const int i = nodes[PST_OP_BACKWARD_INPUT];
    const int w = nodes[PST_OP_BACKWARD_WEIGHT];
    const pst_step *forward = view.nodes[f].step;
    const pst_step *backward = view.nodes[i].step;
    add_life(rank, forward->saved_for_input, s->saved_for_input_bytes, f, i);
    add_life(rank, forward->saved_for_weight, s->saved_for_weight_bytes, f, w);
    add_life(rank, backward->kept, s->kept_bytes, i, w);
    if (stage > 0) {
        const int maker = find_node(PST_OP_FORWARD, stage - 1, b);
        ck_assert_uint_eq(forward->input, view.nodes[maker].step->output);
        add_life(rank, forward->input, s->input_bytes, maker,
                 last_use(s->input_held, nodes));
    }
    if (stage + 1 < view.f->stages) {
        const int maker = find_node(PST_OP_BACKWARD_INPUT, stage + 1, b);
        ck_assert_uint_eq(backward->output_grad, view.nodes[maker].step->input_grad);
        add_life(rank, backward->output_grad, s->output_bytes, maker,
                 s->output_grad_held == PST_HELD_TO_BACKWARD_WEIGHT ? w : i);
    }
    add_waiting(rank, nodes, s);
    if (b % (uint32_t)view.f->slices == 0)
        add_sequence(rank, stage, b);
}

/* No two live buffers have one slot, whatever the interleaving of ranks. */
static void check_lives(void)
{
    for (int i = 0; i < view.life_count; i++)
        for (int j = i + 1; j < view.life_count; j++) {
            const life *a = &view.lives[i];
            const life *b = &view.lives[j];
            if (a->rank == b->rank && a->slot == b->slot)
                ck_assert(view.before[a->last][b->first] ||
                          view.before[b->last][a->first]);
        }
}

/* Slots lie behind scratch, each at a multiple of 64, and none over another. */
static void check_offsets(void)
{
    for (int rank = 0; rank < view.f->ranks; rank++) {
        const pst_rank_footprint *row = &view.f->rank[rank];
        size_t end = (row->scratch_bytes + 63) / 64 * 64;
        for (uint32_t i = 0; i < row->slot_count; i++) {
            ck_assert_uint_eq(row->slot_offset[i] % 64, 0);
            ck_assert_uint_ge(row->slot_offset[i], end);
            end = row->slot_offset[i] + 64;
        }
        ck_assert_uint_le(end, row->bytes);
    }
}

/* Contributions come in the order of sums, each once. */
static void check_merges(int stage)
{
    const int rank = view.nodes[find_node(PST_OP_BACKWARD_WEIGHT, stage, 0)].rank;
    uint32_t waiting[TOY_MICROBATCHES];
    int due = 0;
    for (int i = 0; i < view.node_count; i++) {
        const pst_step *step = view.nodes[i].step;
        if (step->action.stage != stage || !does(step, PST_OP_BACKWARD_WEIGHT))
            continue;
        waiting[step->action.microbatch] = step->waiting;
        if (step->waiting != PST__NONE) {
            ck_assert_uint_ne(step->action.microbatch, (uint32_t)toy_due(&t, due));
            continue;
        }
        ck_assert_uint_eq(step->action.microbatch, (uint32_t)toy_due(&t, due++));
        for (uint32_t k = 0; k < step->merge_count; k++)
            ck_assert_uint_eq(view.f->rank[rank].merges[step->merge_first + k],
                              waiting[toy_due(&t, due++)]);
    }
    ck_assert_int_eq(due, view.f->microbatches);
}

/* A ring is as deep as the most messages that may be in it: those sent by an action
 * and before, without those that must have been taken before it ends. */
static unsigned undelivered(const pst_link *link, uint32_t number, int sender_node)
{
    unsigned count = 0;
    for (int i = 0; i <= sender_node; i++) {
        const pst_step *step = view.nodes[i].step;
        if (view.nodes[i].rank != link->sender || step->send != number)
            continue;
        const bool onward = step->action.op == PST_OP_FORWARD;
        const int taker =
            find_node(onward ? PST_OP_FORWARD : PST_OP_BACKWARD_INPUT,
                      step->action.stage + (onward ? 1 : -1), step->action.microbatch);
        ck_assert_int_eq(view.nodes[taker].rank, link->receiver);
        ck_assert_uint_eq(view.nodes[taker].step->receive, number);
        count += !view.before[taker][sender_node];
    }
    return count;
}

static void check_links(void)
{
    for (uint32_t number = 0; number < view.f->link_count; number++) {
        const pst_link *link = &view.f->links[number];
        unsigned most = 0;
        for (int i = 0; i < view.node_count; i++)
            if (view.nodes[i].rank == link->sender &&
                view.nodes[i].step->send == number) {
                const unsigned count = undelivered(link, number, i);
                most = count > most ? count : most;
            }
        /* those that were taken early are in the table of arrivals, not in the ring */
        ck_assert_uint_le(link->capacity, most);
        ck_assert_uint_ge(link->capacity + link->arrived, most);
    }
}

static void check_by_force(const pst_schedule *schedule, const pst_stage *stages,
                           const int *rank_of_stage)
{
    pst_footprint *f = plan(schedule, stages, rank_of_stage);
    view.f = f;
    view.stages = stages;
    view.life_count = 0;
    add_nodes();
    find_order();
    for (int s = 0; s < f->stages; s++)
        for (int b = 0; b < f->microbatches; b++)
            add_lives(rank_of_stage, s, (uint32_t)b);
    check_lives();
    check_offsets();
    check_links();
    for (int s = 0; s < f->stages; s++)
        check_merges(s);
    pst__footprint_destroy(f);
}

/* Sizes that share slots, and some that are zero. */
static void vary_sizes(pst_stage *stages, int count, unsigned seed)
{
    static const size_t bytes[] = {64, 128, 0, 64};
    for (int s = 0; s < count; s++) {
        pst_stage *stage = &stages[s];
        stage->saved_for_input_bytes = bytes[seed % 4];
        stage->saved_for_weight_bytes = bytes[seed / 4 % 4];
        stage->kept_bytes = bytes[(seed + 1) % 4];
        stage->sequence_bytes = bytes[(seed + 2) % 4];
        stage->gradient_count = 16;
        stage->input_held = (pst_held)((seed + (unsigned)s) % 3);
        stage->output_grad_held = (pst_held)((seed / 3 + (unsigned)s) % 3);
        stage->output_bytes = s + 1 < count ? bytes[seed / 2 % 4] : 0;
        stage->input_bytes = s > 0 ? bytes[seed / 2 % 4] : 0;
    }
}

START_TEST(test_named_by_force)
{
    static const char *const names[] = {"gpipe", "1f1b"};
    const int p = _i;
    for (int m = 1; m <= 6; m++)
        for (unsigned kind = 0; kind < 2; kind++) {
            pst_schedule *schedule = toy_named(names[kind], p, m);
            toy_init(&t, &(toy_shape){.stages = p, .ranks = p});
            check_by_force(schedule, t.stage, t.rank_of_stage);
            vary_sizes(t.stage, p, (unsigned)m * 5 + kind);
            check_by_force(schedule, t.stage, t.rank_of_stage);
            pst_schedule_destroy(schedule);
        }
}
END_TEST

typedef struct mapping {
    int ranks;
    int stages;
    int rank_of_stage[8];
} mapping;

static const mapping mappings[] = {
    {1, 3, {0, 0, 0}},          {2, 2, {0, 1}},
    {2, 4, {0, 1, 1, 0}},       {3, 3, {2, 0, 1}},
    {3, 6, {0, 1, 2, 2, 1, 0}}, {3, 6, {2, 0, 1, 0, 2, 1}},
    {4, 4, {0, 1, 2, 3}},       {4, 8, {0, 1, 2, 3, 0, 1, 2, 3}},
};

START_TEST(test_random_by_force)
{
    const mapping *where = &mappings[_i];
    toy_init(&t, &(toy_shape){.stages = where->stages,
                              .ranks = where->ranks,
                              .rank_of_stage = where->rank_of_stage});
    for (unsigned seed = 0; seed < 24; seed++) {
        const int m = 1 + (int)seed % 5;
        pst_schedule *schedule = toy_random(&t, m, seed, seed % 2);
        vary_sizes(t.stage, where->stages, seed);
        check_by_force(schedule, t.stage, t.rank_of_stage);
        pst_schedule_destroy(schedule);
    }
    for (unsigned seed = 0; seed < 24; seed++) {
        t.shape.slices = 2 + (int)seed % 2;
        const int m = t.shape.slices * (1 + (int)seed / 2 % 2);
        pst_schedule *schedule = toy_random(&t, m, seed, seed / 4 % 2);
        vary_sizes(t.stage, where->stages, seed);
        check_by_force(schedule, t.stage, t.rank_of_stage);
        pst_schedule_destroy(schedule);
    }
}
END_TEST

/* ---- what cannot be ------------------------------------------------------ */

START_TEST(test_deadlock)
{
    pst_schedule *schedule = toy_parse("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n");
    pst_footprint *f = NULL;
    pst_error err = PST_ERROR_INIT;
    toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2});
    ck_assert_int_eq(
        pst__footprint_create(NULL, schedule, t.stage, t.rank_of_stage, &f, &err),
        PST_EDEADLOCK);
    ck_assert_str_eq(err.text, "rank 0 would wait for ever before 0B0");
    ck_assert_ptr_null(f);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(test_sizes_that_overflow)
{
    pst_schedule *schedule = toy_named("gpipe", 2, 3);
    for (int i = 0; i < 3; i++) {
        pst_footprint *f = NULL;
        pst_error err = PST_ERROR_INIT;
        toy_init(&t, &(toy_shape){.stages = 2, .ranks = 2});
        if (i == 0)
            t.stage[1].saved_for_input_bytes = SIZE_MAX;
        if (i == 1)
            t.stage[1].saved_for_input_bytes = SIZE_MAX / 2;
        if (i == 2)
            t.stage[0].scratch_bytes = SIZE_MAX - 3;
        ck_assert_int_eq(
            pst__footprint_create(NULL, schedule, t.stage, t.rank_of_stage, &f, &err),
            PST_ENOMEM);
        ck_assert_str_eq(err.text,
                         "no memory for the footprint of a schedule (0 bytes)");
        ck_assert_ptr_null(f);
    }
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(test_little_memory)
{
    toy_env memory;
    pst_status status = PST_ENOMEM;
    pst_footprint *f = NULL;
    toy_env_init(&memory);
    toy_init(&t, &(toy_shape){.stages = 3, .ranks = 3});
    pst_schedule *schedule = toy_random(&t, 12, 3, true);
    for (long n = 1; status != PST_OK; n++) {
        ck_assert_int_eq(memory.live, 0);
        memory.fail_at = memory.total + n;
        status = pst__footprint_create(&memory.env, schedule, t.stage, t.rank_of_stage,
                                       &f, NULL);
        ck_assert(status == PST_OK || status == PST_ENOMEM);
    }
    pst__footprint_destroy(f);
    pst__footprint_destroy(NULL);
    ck_assert_int_eq(memory.live, 0);
    pst_schedule_destroy(schedule);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("footprint");
    TCase *counts = tcase_create("counts");
    int kinds = 0;
    while (pst_schedule_kind_at((size_t)kinds) != NULL)
        kinds++;
    tcase_set_timeout(counts, 120);
    tcase_add_test(counts, test_saved_buffers);
    tcase_add_loop_test(counts, test_growth, 0, sizeof peaks / sizeof *peaks);
    tcase_add_test(counts, test_waiting);
    tcase_add_loop_test(counts, test_peaks, 0, kinds);
    tcase_add_loop_test(counts, test_versions, 0, 2);
    tcase_add_loop_test(counts, test_sequences, 1, 5);
    tcase_add_test(counts, test_sequences_forward_only);
    tcase_add_test(counts, test_forward_only);
    tcase_add_test(counts, test_links);
    suite_add_tcase(suite, counts);
    TCase *force = tcase_create("brute force");
    tcase_set_timeout(force, 120);
    tcase_add_loop_test(force, test_named_by_force, 1, 6);
    tcase_add_loop_test(force, test_random_by_force, 0,
                        sizeof mappings / sizeof mappings[0]);
    suite_add_tcase(suite, force);
    TCase *faults = tcase_create("faults");
    tcase_set_timeout(faults, 120);
    tcase_add_test(faults, test_deadlock);
    tcase_add_test(faults, test_sizes_that_overflow);
    tcase_add_test(faults, test_little_memory);
    suite_add_tcase(suite, faults);
    return suite;
}
