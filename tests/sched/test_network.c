/* SPDX-License-Identifier: BSD-3-Clause */
/* test_network.c - messages between hosts: cases done by hand, and any list's times
 * held against what defines them. */
#include <math.h>
#include <string.h>

#include <penstock/registry.h>
#include <penstock/simulate.h>

#include "tests/sched/simulated.h"
#include "tests/sched/support.h"
#include "tests/suite.h"

/* ---- by hand; a message keeps a link for 2, and is there at once -------- */

static const int each_alone[] = {0, 1, 2, 3}, two_by_two[] = {0, 0, 1, 1};
static const pst_network two_hosts = {.hosts = 2, .host_of_rank = each_alone};
static const pst_network two_each = {.hosts = 2, .host_of_rank = two_by_two};

/* On the link 1-3 and, though ready at 2, 3-5; latency keeps nobody off it. */
START_TEST(two_messages_on_one_link)
{
    const pst_costs costs = {
        .latency = 1, .bandwidth = 50, .message_bytes = 100, .network = &two_hosts};
    pst_schedule *schedule = make("gpipe", 2, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:12-14 0B1:14-16");
    assert_times(schedule, s, 1, "1F0:4-5 1F1:6-7 1B0:7-9 1B1:9-11");
    ck_assert_int_eq(s->hosts, 2);
    ck_assert_double_eq(s->link_busy[0 * 2 + 1], 4);
    ck_assert_double_eq(s->link_busy[1 * 2 + 0], 4);
    ck_assert_double_eq(s->link_busy[0], 0);
    ck_assert_double_eq(s->link_wait[0 * 2 + 1], 1);
    ck_assert_double_eq(s->link_wait[1 * 2 + 0], 0);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* 0 to 1 is kept 1-5 and 7-11; 1 to 0 meanwhile 4-8. */
START_TEST(both_directions_at_once)
{
    const pst_costs costs = {.bandwidth = 1, .message_bytes = 2, .network = &two_hosts};
    pst_schedule *schedule = parse("0F0,0F1,2F0,2F1\n1F0,1F1,3F0,3F1\n");
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 2F0:6-7 2F1:8-9");
    assert_times(schedule, s, 1, "1F0:3-4 1F1:5-6 3F0:9-10 3F1:11-12");
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

START_TEST(two_hosts_of_two_ranks)
{
    const pst_costs costs = {
        .latency = 1, .bandwidth = 1, .message_bytes = 2, .network = &two_each};
    pst_schedule *schedule = make("gpipe", 4, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:18-20 0B1:20-22");
    assert_times(schedule, s, 1, "1F0:1-2 1F1:2-3 1B0:16-18 1B1:18-20");
    assert_times(schedule, s, 2, "2F0:5-6 2F1:7-8 2B0:11-13 2B1:13-15");
    assert_times(schedule, s, 3, "3F0:6-7 3F1:8-9 3B0:9-11 3B1:11-13");
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* Ranks 0 and 1 are ready at the same moment: the lower goes first. */
START_TEST(two_ranks_share_a_link)
{
    const pst_costs costs = {.bandwidth = 1, .message_bytes = 2, .network = &two_each};
    pst_schedule *one = make("gpipe", 2, 1), *two;
    ck_assert_int_eq(pst_schedule_replicate(NULL, one, 2, &two, NULL), PST_OK);
    pst_simulation *s = simulate(two, &costs);
    ck_assert_double_eq(s->start[2][0], 3);
    ck_assert_double_eq(s->start[3][0], 5);
    ck_assert_double_eq(s->end[0][1], 10);
    ck_assert_double_eq(s->end[1][1], 12);
    pst_simulation_destroy(s);
    pst_schedule_destroy(two);
    pst_schedule_destroy(one);
}
END_TEST

/* Fewer microbatches than ranks: the link is kept for 3, 2-8 and 8-14. */
START_TEST(fewer_microbatches_than_ranks)
{
    static const int place[] = {0, 0, 1};
    const pst_network network = {.hosts = 2, .host_of_rank = place};
    const pst_costs costs = {.bandwidth = 1, .message_bytes = 3, .network = &network};
    pst_schedule *schedule = make("1f1b", 3, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:13-15 0B1:16-18");
    assert_times(schedule, s, 1, "1F0:1-2 1F1:2-3 1B0:11-13 1B1:14-16");
    assert_times(schedule, s, 2, "2F0:5-6 2B0:6-8 2F1:8-9 2B1:9-11");
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* There: latency 0, kept for 4; back: latency 5 and no limit. */
START_TEST(links_of_their_own)
{
    const pst_network_link links[] = {{0, 0}, {0, 0.5}, {5, INFINITY}, {0, 0}};
    const pst_network network = {
        .hosts = 2, .host_of_rank = each_alone, .links = links};
    const pst_costs costs = {
        .latency = 100, .bandwidth = 1, .message_bytes = 2, .network = &network};
    pst_schedule *schedule = make("gpipe", 2, 2);
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 0, "0F0:0-1 0F1:1-2 0B0:17-19 0B1:19-21");
    assert_times(schedule, s, 1, "1F0:5-6 1F1:9-10 1B0:10-12 1B1:12-14");
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

static pst_schedule *parse_extended(const char *text)
{
    const pst_csv_options options = {.extended = 1};
    pst_schedule *schedule;
    ck_assert_int_eq(pst_schedule_parse_csv(NULL, "t.csv", text, strlen(text), &options,
                                            &schedule, NULL),
                     PST_OK);
    return schedule;
}

/* The message of 0F0 is there 1-3, what is evicted 3-5, the message of 0F1 5-7; what is
 * loaded, though asked for at 2, goes back 5-7. */
START_TEST(evicted_over_a_link)
{
    const pst_costs costs = {.bandwidth = 1, .message_bytes = 2, .network = &two_hosts};
    pst_schedule *schedule =
        parse_extended("0F0,0EVICT0,0F1,0LOAD0,0B0,0B1\n1F0,1F1,1B0,1B1\n");
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 1, "1F0:3-4 1F1:7-8 1B0:8-10 1B1:10-12");
    assert_times(schedule, s, 0,
                 "0F0:0-1 0EVICT0:1-1 0F1:1-2 0LOAD0:2-2 0B0:12-14 0B1:14-16");
    ck_assert_double_eq(s->link_busy[1 * 2 + 0], 6);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* There a message takes 8: 1-9, evicted 9-17, 17-25. So 0B0 has its gradient at 14 and
 * what it evicted 17-19 only. */
START_TEST(a_backward_waits_for_what_was_evicted)
{
    const pst_network_link links[] = {{0, 1}, {0, 0.25}, {0, 1}, {0, 1}};
    const pst_network network = {
        .hosts = 2, .host_of_rank = each_alone, .links = links};
    const pst_costs costs = {.message_bytes = 2, .network = &network};
    pst_schedule *schedule =
        parse_extended("0F0,0EVICT0,0F1,0LOAD0,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    pst_simulation *s = simulate(schedule, &costs);
    assert_times(schedule, s, 1, "1F0:9-10 1B0:10-12 1F1:25-26 1B1:26-28");
    assert_times(schedule, s, 0,
                 "0F0:0-1 0EVICT0:1-1 0F1:1-2 0LOAD0:2-2 0B0:19-21 0B1:30-32");
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
}
END_TEST

/* One message at a time never waits, so hosts of one rank each change nothing. */
START_TEST(one_microbatch_meets_no_other)
{
    for (int p = 1; p <= 4; p++) {
        const pst_network network = {.hosts = p, .host_of_rank = each_alone};
        pst_costs costs = {.latency = 0.5, .bandwidth = 4, .message_bytes = 1};
        pst_schedule *schedule = make("1f1b", p, 1);
        pst_simulation *without = simulate(schedule, &costs);
        costs.network = &network;
        pst_simulation *with = simulate(schedule, &costs);
        ck_assert_double_eq(with->makespan, without->makespan);
        ck_assert_int_eq(without->hosts, 0);
        ck_assert_ptr_null(without->link_busy);
        pst_simulation_destroy(without);
        pst_simulation_destroy(with);
        pst_schedule_destroy(schedule);
    }
}
END_TEST

/* On one host messages take no time. */
START_TEST(one_host_needs_no_link)
{
    static const int place[] = {0, 0, 0, 0};
    const pst_network network = {.hosts = 1, .host_of_rank = place};
    const pst_costs costs = {
        .latency = 7, .bandwidth = 1, .message_bytes = 9, .network = &network};
    pst_schedule *schedule = make("zb-h1", 4, 8);
    pst_simulation *with = simulate(schedule, &costs);
    pst_simulation *without = simulate(schedule, NULL);
    ck_assert_double_eq(with->makespan, without->makespan);
    pst_simulation_destroy(with);
    pst_simulation_destroy(without);
    pst_schedule_destroy(schedule);
}
END_TEST

/* ---- any list: is each start what its inputs and links say? -------------- */

enum { RANKS = 6, MESSAGES = 4096 };

typedef struct message {
    double ready, arrival;
    int from, to, op, stage;
    uint32_t microbatch;
    size_t iteration, index;
} message;

typedef struct proof {
    const pst_schedule *schedule;
    const pst_costs *costs;
    const pst_simulation *s;
    message messages[MESSAGES];
    int count;
} proof;

static int is_crossing(const proof *p, int a, int b)
{
    const int *host = p->costs->network->host_of_rank;
    return host[a] != host[b];
}

static int user_stage(const pst_schedule *schedule, pst_action action)
{
    const pst_op_description *op = pst_op_describe(action.op);
    return op->makes_output       ? pst_schedule_next_stage(schedule, action.stage)
           : op->makes_input_grad ? pst_schedule_previous_stage(schedule, action.stage)
                                  : -1;
}

static void collect(proof *p)
{
    p->count = 0;
    for (int rank = 0; rank < p->s->ranks; rank++) {
        size_t length;
        const pst_action *row = pst_schedule_row(p->schedule, rank, &length);
        for (size_t i = 0; i < p->s->count[rank]; i++) {
            const pst_action a = row[i % length];
            const int user = user_stage(p->schedule, a);
            const int to = user < 0 ? rank : pst_schedule_rank_of(p->schedule, user);
            if (!is_crossing(p, rank, to))
                continue;
            ck_assert_int_lt(p->count, MESSAGES);
            p->messages[p->count++] = (message){.ready = p->s->end[rank][i],
                                                .from = rank,
                                                .to = to,
                                                .op = a.op,
                                                .stage = a.stage,
                                                .microbatch = a.microbatch,
                                                .iteration = i / length,
                                                .index = i};
        }
    }
}

static int by_readiness(const void *a, const void *b)
{
    const message *x = a, *y = b;
    if (x->ready != y->ready)
        return x->ready < y->ready ? -1 : 1;
    if (x->from != y->from)
        return x->from - y->from;
    return x->index < y->index ? -1 : 1;
}

static void carry(proof *p)
{
    const pst_network *n = p->costs->network;
    double free_at[RANKS][RANKS] = {{0}};
    qsort(p->messages, (size_t)p->count, sizeof *p->messages, by_readiness);
    for (int i = 0; i < p->count; i++) {
        message *m = &p->messages[i];
        const int from = n->host_of_rank[m->from], to = n->host_of_rank[m->to];
        const pst_network_link *link = &n->links[from * n->hosts + to];
        double *free = &free_at[from][to];
        *free = fmax(*free, m->ready) + p->costs->message_bytes / link->bandwidth;
        m->arrival = *free + link->latency;
    }
}

/* When what `stage` makes of a microbatch, going forward or not, is on `rank`. */
static double there(const proof *p, size_t iteration, int stage, uint32_t microbatch,
                    int is_forward, int rank)
{
    const int maker = pst_schedule_rank_of(p->schedule, stage);
    for (int i = 0; i < p->count; i++) {
        const message *m = &p->messages[i];
        if (m->stage == stage && m->microbatch == microbatch &&
            m->iteration == iteration && m->to == rank &&
            (m->op == PST_OP_FORWARD) == is_forward)
            return m->arrival;
    }
    ck_assert(!is_crossing(p, maker, rank));
    size_t length;
    const pst_action *row = pst_schedule_row(p->schedule, maker, &length);
    for (size_t i = 0; i < length; i++) {
        const pst_op_description *op = pst_op_describe(row[i].op);
        if (row[i].stage == stage && row[i].microbatch == microbatch &&
            (is_forward ? op->makes_output : op->makes_input_grad))
            return p->s->end[maker][iteration * length + i];
    }
    ck_abort_msg("stage %d makes nothing of %u", stage, microbatch);
    return 0;
}

static double inputs_there(const proof *p, size_t iteration, pst_action a, int rank)
{
    const int before = pst_schedule_previous_stage(p->schedule, a.stage);
    const int behind = pst_schedule_next_stage(p->schedule, a.stage);
    if (a.op == PST_OP_FORWARD)
        return before < 0 ? 0 : there(p, iteration, before, a.microbatch, 1, rank);
    if (a.op == PST_OP_BACKWARD_WEIGHT)
        return there(p, iteration, a.stage, a.microbatch, 0, rank);
    if (a.op != PST_OP_BACKWARD && a.op != PST_OP_BACKWARD_INPUT)
        return 0;
    const double own = there(p, iteration, a.stage, a.microbatch, 1, rank);
    return behind < 0 ? own
                      : fmax(own, there(p, iteration, behind, a.microbatch, 0, rank));
}

/* Times that hold against their own messages are the times: the first moment at which
 * others differed would have another cause than any before it. */
static void check_starts(const proof *p)
{
    for (int rank = 0; rank < p->s->ranks; rank++) {
        size_t length;
        const pst_action *row = pst_schedule_row(p->schedule, rank, &length);
        double free_at = 0;
        for (size_t i = 0; i < p->s->count[rank]; i++) {
            const int pair = row[i % length].paired;
            double start = free_at;
            for (size_t k = i; k <= i + (pair ? 1 : 0); k++)
                start = fmax(start, inputs_there(p, i / length, row[k % length], rank));
            for (size_t k = i; k <= i + (pair ? 1 : 0); k++)
                ck_assert_msg(p->s->start[rank][k] == start,
                              "rank %d, action %zu: %.17g, not %.17g", rank, k,
                              p->s->start[rank][k], start);
            i += pair ? 1 : 0;
            free_at = p->s->end[rank][i];
        }
    }
}

static uint64_t random_state;

/* Above 0, up to `most`. */
static double draw(double most)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return most * (double)((random_state >> 33) + 1) / 2147483649.0;
}

static const char *const kinds[] = {"gpipe",  "1f1b",  "interleaved", "looped-bfs",
                                    "zb-h1",  "zb-v",  "dualpipe",    "dualpipev",
                                    "hanayo", "zb-h2", "chimera"};

static double draw_duration(void *user, pst_action action)
{
    (void)user, (void)action;
    return draw(1);
}

static int prove_one(proof *p, const char *kind)
{
    int place[RANKS];
    pst_network_link links[RANKS * RANKS];
    const pst_shape shape = {.ranks = 1 + (int)draw(RANKS - 0.01),
                             .microbatches = 1 + (int)draw(11.99)};
    pst_network network = {.host_of_rank = place, .links = links};
    network.hosts = 1 + (int)draw(shape.ranks - 0.01);
    for (int i = 0; i < RANKS; i++)
        place[i] = (int)draw(network.hosts - 0.01);
    for (int i = 0; i < RANKS * RANKS; i++)
        links[i] = (pst_network_link){draw(0.5), 0.5 + draw(4)};
    const pst_costs costs = {.message_bytes = draw(2),
                             .iterations = 1 + (int)draw(1.99),
                             .duration = draw_duration,
                             .network = &network};
    pst_schedule *schedule;
    if (pst_schedule_create(NULL, kind, &shape, &schedule, NULL) != PST_OK)
        return 0;
    pst_simulation *s = simulate(schedule, &costs);
    p->schedule = schedule;
    p->costs = &costs;
    p->s = s;
    collect(p);
    carry(p);
    check_starts(p);
    pst_simulation_destroy(s);
    pst_schedule_destroy(schedule);
    return 1;
}

START_TEST(starts_are_what_links_say)
{
    static proof p;
    int proven = 0;
    random_state = (uint64_t)_i + 1;
    for (int i = 0; i < 300; i++)
        proven += prove_one(&p, kinds[_i]);
    ck_assert_int_gt(proven, 20);
}
END_TEST

/* ---- refused ------------------------------------------------------------ */

static const int beyond[] = {0, 2}, below[] = {0, -1};
static const pst_network_link late[] = {{0, 1}, {-1, 1}, {0, 1}, {0, 1}};
static const pst_network_link never[] = {{0, 1}, {INFINITY, 1}, {0, 1}, {0, 1}};
static const pst_network_link closed[] = {{0, 1}, {0, 1}, {0, 0}, {0, 1}};
static const pst_network_link odd[] = {{0, 1}, {0, 1}, {0, NAN}, {0, 1}};

static const struct {
    pst_network network;
    const char *text;
} refused[] = {
    {{0, each_alone, NULL}, "0 hosts: must be 1 to 2, as there are ranks"},
    {{3, each_alone, NULL}, "3 hosts: must be 1 to 2, as there are ranks"},
    {{2, beyond, NULL}, "host 2 of rank 1: must be 0 to 1"},
    {{2, below, NULL}, "host -1 of rank 1: must be 0 to 1"},
    {{2, each_alone, late},
     "latency -1 of the link from host 0 to host 1: must be 0 or more"},
    {{2, each_alone, never},
     "latency inf of the link from host 0 to host 1: must be 0 or more"},
    {{2, each_alone, closed},
     "bandwidth 0 of the link from host 1 to host 0: must be above 0"},
    {{2, each_alone, odd},
     "bandwidth nan of the link from host 1 to host 0: must be above 0"},
};

START_TEST(bad_networks_are_refused)
{
    pst_error err = PST_ERROR_INIT;
    pst_simulation *simulation = NULL;
    const pst_costs costs = {.network = &refused[_i].network};
    pst_schedule *schedule = make("gpipe", 2, 1);
    ck_assert_int_eq(pst_simulate(NULL, schedule, &costs, &simulation, &err),
                     PST_EINVAL);
    assert_error(&err, PST_EINVAL, "", 0, refused[_i].text);
    ck_assert_ptr_null(simulation);
    pst_schedule_destroy(schedule);
}
END_TEST

/* So many microbatches that the heap has to grow. */
START_TEST(each_allocation_may_fail)
{
    const pst_costs costs = {.network = &two_hosts};
    pst_schedule *schedule = make("gpipe", 2, 200);
    pst_status status = PST_ENOMEM;
    int at = 1;
    for (; status != PST_OK && at < 200; at++) {
        pst_error err = PST_ERROR_INIT;
        pst_simulation *simulation = NULL;
        counting c = {.fail_at = at};
        pst_env env = counting_env(&c);
        status = pst_simulate(&env, schedule, &costs, &simulation, &err);
        ck_assert_int_eq((int)err.status, c.fail_at < 0 ? PST_ENOMEM : PST_OK);
        pst_simulation_destroy(simulation);
        ck_assert_int_eq(c.allocated, c.released);
    }
    ck_assert_int_gt(at, 25);
    pst_schedule_destroy(schedule);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("network");
    TCase *times = tcase_create("times");
    tcase_add_test(times, two_messages_on_one_link);
    tcase_add_test(times, both_directions_at_once);
    tcase_add_test(times, two_hosts_of_two_ranks);
    tcase_add_test(times, two_ranks_share_a_link);
    tcase_add_test(times, fewer_microbatches_than_ranks);
    tcase_add_test(times, links_of_their_own);
    tcase_add_test(times, evicted_over_a_link);
    tcase_add_test(times, a_backward_waits_for_what_was_evicted);
    tcase_add_test(times, one_microbatch_meets_no_other);
    tcase_add_test(times, one_host_needs_no_link);
    suite_add_tcase(suite, times);

    TCase *any = tcase_create("any list");
    tcase_set_timeout(any, 120);
    tcase_add_loop_test(any, starts_are_what_links_say, 0,
                        sizeof kinds / sizeof *kinds);
    suite_add_tcase(suite, any);

    TCase *bad = tcase_create("refused");
    tcase_add_loop_test(bad, bad_networks_are_refused, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(bad, each_allocation_may_fail);
    suite_add_tcase(suite, bad);
    return suite;
}
