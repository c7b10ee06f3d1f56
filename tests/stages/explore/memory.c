/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - which values an atomic access may read, and where its own may stand.
 *
 * An execution grows event by event along program order and reads-from, so RC11's
 * conditions are kept up one event at a time:
 *
 *   coherence   what a thread knows of a location bounds what it reads and writes;
 *               an acquire that reads a release learns what its writer knew
 *   atomicity   nothing may stand between a read-modify-write and what it read
 *   seq_cst     psc, over seq_cst accesses, has no cycle; for accesses alone it is
 *               program order, happens-before at one location or by way of other
 *               locations on both sides, the locations' orders, and from-read
 */
#include <assert.h>
#include <string.h>

#include "tests/stages/explore/machine.h"

enum { SEQ_CST_EVENTS = 128, NO_ACCESS = LOCATIONS, INITIAL = 0xffff };

/* A bit for each seq_cst event. */
__extension__ typedef unsigned __int128 event_set;

typedef struct message {
    uint32_t value;
    uint16_t writer; /* thread << 8 | event                                      */
    uint8_t place;   /* in the location's order                                  */
    bool of_rmw;     /* stands right behind what it read                         */
    knowledge released;
} message;

typedef struct location {
    const uint32_t *address;
    int count;
    message message[MESSAGES];
    uint8_t order[MESSAGES]; /* numbers of messages                             */
} location;

typedef struct seq_cst_event {
    int thread;
    int event;
    int location;
    outcome numbers;  /* `place` is here the number of the message written        */
    event_set before; /* those that psc puts after it                             */
} seq_cst_event;

/* What a thread has done: for each event its location and what it knew after it. */
typedef struct history {
    knowledge known;
    uint8_t location[EVENTS];
    uint8_t seen[EVENTS][THREADS];
} history;

static struct {
    int locations;
    location location[LOCATIONS];
    history thread[THREADS];
    int seq_cst_count;
    seq_cst_event seq_cst[SEQ_CST_EVENTS];
} m;

static void reset_location(location *l)
{
    l->count = 1;
    l->order[0] = 0;
    l->message[0] = (message){.value = *l->address, .writer = INITIAL};
}

void memory_forget(void)
{
    m.locations = 0;
}

void memory_reset(void)
{
    m.seq_cst_count = 0;
    for (int i = 0; i < m.locations; i++)
        reset_location(&m.location[i]);
    for (int thread = 0; thread < THREADS; thread++)
        memset(&m.thread[thread].known, 0, sizeof m.thread[thread].known);
}

int memory_location(const uint32_t *address)
{
    for (int i = 0; i < m.locations; i++)
        if (m.location[i].address == address)
            return i;
    if (m.locations == LOCATIONS)
        explore_fail("there are more than %d atomics", LOCATIONS);
    m.location[m.locations].address = address;
    reset_location(&m.location[m.locations]);
    return m.locations++;
}

knowledge *memory_known(int thread)
{
    return &m.thread[thread].known;
}

void memory_learn(knowledge *k, const knowledge *more)
{
    for (int thread = 0; thread < THREADS; thread++)
        if (k->seen[thread] < more->seen[thread])
            k->seen[thread] = more->seen[thread];
    for (int i = 0; i < m.locations; i++) {
        const message *all = m.location[i].message;
        if (all[k->view[i]].place < all[more->view[i]].place)
            k->view[i] = more->view[i];
    }
}

static void log_event(int thread, int location)
{
    history *h = &m.thread[thread];
    const int event = ++h->known.seen[thread];
    if (event == EVENTS - 1)
        explore_fail("thread %d does not end within %d events", thread, EVENTS);
    h->location[event] = (uint8_t)location;
    memcpy(h->seen[event], h->known.seen, sizeof h->seen[event]);
}

void memory_step(int thread)
{
    log_event(thread, NO_ACCESS);
}

static bool acquires(memory_order order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static bool releases(memory_order order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static bool writes(const access *a, outcome way)
{
    return way.place != NOWHERE || a->kind == STORE;
}

static memory_order order_of(const access *a, outcome way)
{
    return a->kind == COMPARE && !writes(a, way) ? a->failed : a->order;
}

/* ---- seq_cst ---------------------------------------------------------------- */

/* A step after `a` in its thread, at another location, happens before a step in front
 * of the next of `thread`, again at another location than `location`. */
static bool precedes_by_detour(const seq_cst_event *a, int thread, int location)
{
    const history *from = &m.thread[a->thread];
    const history *to = &m.thread[thread];
    const int last = from->known.seen[a->thread];
    int first = a->event + 1;
    while (first <= last &&
           (from->location[first] == NO_ACCESS || from->location[first] == a->location))
        first++;
    int end = to->known.seen[thread];
    while (end > 0 && (to->location[end] == NO_ACCESS || to->location[end] == location))
        end--;
    return first <= last && end > 0 && to->seen[end][a->thread] >= first;
}

/* psc has an edge from `a` to the new event; `seen` is what happens before that. */
static bool precedes(const seq_cst_event *a, const access *n, outcome way,
                     const uint8_t seen[THREADS])
{
    if (a->thread == n->thread || precedes_by_detour(a, n->thread, n->location))
        return true;
    if (a->location != n->location)
        return false;
    const message *all = m.location[a->location].message;
    return seen[a->thread] >= a->event ||
           (writes(n, way) &&
            ((a->numbers.place != NOWHERE && all[a->numbers.place].place < way.place) ||
             (a->numbers.read != NOWHERE && all[a->numbers.read].place < way.place)));
}

/* psc has an edge from the new event to `a`. */
static bool follows(const seq_cst_event *a, const access *n, outcome way)
{
    if (a->location != n->location || a->numbers.place == NOWHERE)
        return false;
    const message *all = m.location[a->location].message;
    const int place = all[a->numbers.place].place;
    return (writes(n, way) && place >= way.place) ||
           (way.read != NOWHERE && place > all[way.read].place);
}

/* The edges of the new event to and from those there are. */
static void find_edges(const access *n, outcome way, event_set *in, event_set *out)
{
    uint8_t seen[THREADS];
    memcpy(seen, m.thread[n->thread].known.seen, sizeof seen);
    if (way.read != NOWHERE) {
        const knowledge *k = &m.location[n->location].message[way.read].released;
        for (int thread = 0; thread < THREADS; thread++)
            if (seen[thread] < k->seen[thread])
                seen[thread] = k->seen[thread];
    }
    *in = *out = 0;
    for (int i = 0; i < m.seq_cst_count; i++) {
        *in |= (event_set)precedes(&m.seq_cst[i], n, way, seen) << i;
        *out |= (event_set)follows(&m.seq_cst[i], n, way) << i;
    }
}

static bool closes_cycle(event_set in, event_set out)
{
    event_set reached = out;
    for (event_set before = 0; before != reached && !(reached & in);) {
        before = reached;
        for (int i = 0; i < m.seq_cst_count; i++)
            if (reached >> i & 1)
                reached |= m.seq_cst[i].before;
    }
    return reached & in;
}

static bool has_seq_cst_order(const access *n, outcome way)
{
    event_set in, out;
    if (order_of(n, way) != memory_order_seq_cst)
        return true;
    find_edges(n, way, &in, &out);
    return !closes_cycle(in, out);
}

/* Before the event is performed: places change then. */
static void add_seq_cst(const access *n, outcome way)
{
    event_set in, out;
    find_edges(n, way, &in, &out);
    const int number = m.seq_cst_count++;
    if (number == SEQ_CST_EVENTS - 1)
        explore_fail("it does not end within %d seq_cst accesses", SEQ_CST_EVENTS);
    for (int i = 0; i < number; i++)
        if (in >> i & 1)
            m.seq_cst[i].before |= (event_set)1 << number;
    const int written = writes(n, way) ? m.location[n->location].count : NOWHERE;
    m.seq_cst[number] = (seq_cst_event){
        .thread = n->thread,
        .event = m.thread[n->thread].known.seen[n->thread] + 1,
        .location = n->location,
        .numbers = {.read = way.read, .place = written},
        .before = out,
    };
}

/* ---- accesses --------------------------------------------------------------- */

static bool is_rmw(const access *a, const message *read)
{
    return a->kind == EXCHANGE || a->kind == ADD || a->kind == OR ||
           (a->kind == COMPARE && read->value == a->expected);
}

static bool is_free(const location *l, int place)
{
    return place == l->count || !l->message[l->order[place]].of_rmw;
}

int memory_outcomes(const access *a, outcome out[MESSAGES])
{
    const location *l = &m.location[a->location];
    const uint8_t known = m.thread[a->thread].known.view[a->location];
    int count = 0;
    for (int place = l->message[known].place; place < l->count; place++) {
        outcome way = {NOWHERE, NOWHERE};
        if (a->kind != STORE)
            way.read = l->order[place];
        if (a->kind == STORE || is_rmw(a, &l->message[way.read])) {
            way.place = place + 1;
            if (!is_free(l, way.place))
                continue;
        }
        if (has_seq_cst_order(a, way))
            out[count++] = way;
    }
    assert(count > 0 && "the newest message can always be read and followed");
    return count;
}

uint32_t memory_written(const access *a, uint32_t read)
{
    switch (a->kind) {
    case ADD:
        return read + a->value;
    case OR:
        return read | a->value;
    default:
        return a->value;
    }
}

static void insert(location *l, const access *a, outcome way, uint32_t read)
{
    const knowledge *known = &m.thread[a->thread].known;
    const int number = l->count++;
    if (l->count == MESSAGES)
        explore_fail("it does not end within %d stores to one atomic", MESSAGES);
    for (int place = number; place > way.place; place--) {
        l->order[place] = l->order[place - 1];
        l->message[l->order[place]].place = (uint8_t)place;
    }
    l->order[way.place] = (uint8_t)number;
    l->message[number] =
        (message){.value = memory_written(a, read),
                  .writer = (uint16_t)(a->thread << 8 | known->seen[a->thread]),
                  .place = (uint8_t)way.place,
                  .of_rmw = way.read != NOWHERE};
}

uint32_t memory_perform(const access *a, outcome way)
{
    location *l = &m.location[a->location];
    knowledge *known = &m.thread[a->thread].known;
    const memory_order order = order_of(a, way);
    if (order == memory_order_seq_cst)
        add_seq_cst(a, way);
    uint32_t read = 0;
    if (way.read != NOWHERE) {
        read = l->message[way.read].value;
        known->view[a->location] = (uint8_t)way.read;
        if (acquires(order))
            memory_learn(known, &l->message[way.read].released);
    }
    log_event(a->thread, a->location);
    if (!writes(a, way))
        return read;
    insert(l, a, way, read);
    message *own = &l->message[l->count - 1];
    known->view[a->location] = (uint8_t)(l->count - 1);
    if (releases(order))
        own->released = *known;
    if (way.read != NOWHERE) /* goes on the release sequence of what it read */
        memory_learn(&own->released, &l->message[way.read].released);
    return read;
}

/* ---- looking at it ---------------------------------------------------------- */

int memory_newer(int number, int oldest, int out[MESSAGES])
{
    const location *l = &m.location[number];
    int count = 0;
    for (int place = l->message[oldest].place; place < l->count; place++)
        out[count++] = l->order[place];
    return count;
}

uint32_t memory_value(int number, int which)
{
    return m.location[number].message[which].value;
}

unsigned memory_writer(int number, int which)
{
    return m.location[number].message[which].writer;
}

uint32_t memory_last(const uint32_t *address)
{
    const location *l = &m.location[memory_location(address)];
    return l->message[l->order[l->count - 1]].value;
}

uint64_t memory_hash(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < m.locations; i++) {
        const location *l = &m.location[i];
        uint64_t hash = race_offset(l->address);
        for (int place = 1; place < l->count; place++)
            hash = mix(hash, l->message[l->order[place]].writer);
        if (l->count > 1)
            sum += hash;
    }
    return sum;
}
