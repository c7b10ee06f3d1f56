/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * search.c - threads as coroutines, and every way to take their choices.
 *
 * Depth first, each time from the start: the choices of the last execution are taken
 * again up to the last that has an alternative.
 *
 * Threads are only switched in front of loads, read-modify-writes and futex calls.
 * Stores need no switch: what comes after may be placed in front of them, so to store
 * at once gives the same graphs. Nor does a load whose location no other thread will
 * write: it has the same messages to choose from now as later. Which thread writes
 * what, and as which of its writes the last time, is learned as it goes; whenever there
 * was more to learn, the search starts again.
 */

/* Its longjmp() refuses to go to another stack. */
#undef _FORTIFY_SOURCE

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "tests/stages/explore/machine.h"

enum { STACK_BYTES = 1 << 17, CHOICES = 2048, STEPS = 1024 };

typedef enum thread_state { READY, ASLEEP, PAUSED, JOINS, DONE } thread_state;

typedef struct thread {
    void *(*main)(void *);
    void *argument;
    bool has_begun;
    jmp_buf here;
    thread_state state;
    uint64_t history;  /* all it has read: the same history, the same thread      */
    int word;          /* ASLEEP on this location                                 */
    uint64_t limit_ns; /* ASLEEP for so long; 0: no limit                        */
    int joins;         /* JOINS this thread                                       */
    bool has_limit;    /* PAUSED in a loop that may give up                       */
    bool gives_up;     /* reads the same until it looks at the clock              */
    int writes;        /* stores and read-modify-writes so far                    */
    int loads;         /* in front of a load from here that may go first, or NOWHERE */
    bool is_local;     /* what comes next is between the thread and itself        */
    uint64_t now_ns;
    int looked[LOCATIONS]; /* message read since the last pause, or NOWHERE      */
} thread;

/* What futex calls on a word have in common. */
typedef struct futex {
    knowledge wakers;
    uint64_t wakes; /* a hash of those so far, in their order                    */
} futex;

typedef struct choice {
    uint8_t taken;
    uint8_t count;
} choice;

typedef struct step {
    int thread;
    const explore_site *site; /* NULL: see `what`                                */
    const char *what;
    size_t offset;
    uint32_t read;
    uint32_t written;
    unsigned writer;
    bool has_read;
    bool has_written;
} step;

static struct {
    const explore_scenario *scenario;
    explore_result *result;
    /* the program, as set_up() left it */
    int started;
    struct {
        void *(*main)(void *);
        void *argument;
    } start[THREADS];
    /* the execution */
    jmp_buf home;
    int current; /* NOWHERE: home                                               */
    int threads;
    thread thread[THREADS];
    futex futex[LOCATIONS];
    int spurious;
    bool has_ended; /* all threads have                                          */
    int step_count;
    step steps[STEPS];
    /* the search */
    int last_write[THREADS][LOCATIONS]; /* writes of the thread by then; 0: never */
    bool has_learned;
    int next_choice;
    int choice_count;
    choice choices[CHOICES];
    uint64_t *visited; /* open addressing; 0 is a free place                     */
    size_t visited_room;
    size_t visited_count;
} s = {.current = NOWHERE};

/* Coroutines outlive executions: each begins again where it has waited at first. */
static struct {
    bool is_made;
    ucontext_t context;
    jmp_buf base;
    char stack[STACK_BYTES];
} coroutines[THREADS];

int search_thread(void)
{
    return s.current;
}

/* ---- violations -------------------------------------------------------------- */

static int print_step(const step *p, char *text, size_t size)
{
    char read[48] = "";
    char written[32] = "";
    char from[32] = "at first";
    if (p->writer != 0xffff)
        snprintf(from, sizeof from, "%u.%u", p->writer >> 8, p->writer & 255);
    if (p->has_read)
        snprintf(read, sizeof read, " reads %u of %s", p->read, from);
    if (p->has_written)
        snprintf(written, sizeof written, " writes %u", p->written);
    return snprintf(text, size, "  thread %d  %s: %s %s (%zu)%s%s\n", p->thread,
                    p->site ? p->site->function : "", p->site ? p->site->operation : "",
                    p->site ? p->site->object : p->what, p->offset, read, written);
}

static void print_trace(void)
{
    char *text = s.result->trace;
    size_t left = sizeof s.result->trace;
    for (int i = 0; i < s.step_count; i++) {
        const int length = print_step(&s.steps[i], text, left);
        if (length < 0 || (size_t)length >= left)
            return;
        text += length;
        left -= (size_t)length;
    }
}

static void go_home(void)
{
    s.current = NOWHERE;
    _longjmp(s.home, 1);
}

void explore_fail(const char *format, ...)
{
    if (!s.result->violated) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(s.result->text, sizeof s.result->text, format, arguments);
        va_end(arguments);
        s.result->violated = true;
        print_trace();
    }
    if (s.current != NOWHERE)
        go_home();
}

static step *note(const explore_site *site, const char *what, const uint32_t *address)
{
    static step lost;
    if (s.step_count == STEPS)
        return &lost;
    step *p = &s.steps[s.step_count++];
    *p = (step){.thread = s.current,
                .site = site,
                .what = what,
                .offset = address ? race_offset(address) : 0,
                .writer = 0xffff};
    return p;
}

/* ---- choices ----------------------------------------------------------------- */

static bool is_new_ground(void)
{
    return s.next_choice == s.choice_count;
}

static int choose(int count)
{
    if (count == 1)
        return 0;
    if (is_new_ground()) {
        if (s.choice_count == CHOICES) {
            explore_fail("it does not end within %d choices", CHOICES);
            return 0;
        }
        s.choices[s.choice_count++] = (choice){.count = (uint8_t)count};
    }
    return s.choices[s.next_choice++].taken;
}

/* To the last choice that has an alternative, which is taken. False: all are done. */
static bool next_execution(void)
{
    while (s.choice_count > 0) {
        choice *last = &s.choices[s.choice_count - 1];
        if (++last->taken < last->count)
            return true;
        s.choice_count--;
    }
    return false;
}

static void put_visited(uint64_t hash)
{
    size_t place = hash & (s.visited_room - 1);
    while (s.visited[place])
        place = (place + 1) & (s.visited_room - 1);
    s.visited[place] = hash;
    s.visited_count++;
}

static void grow_visited(void)
{
    uint64_t *old = s.visited;
    const size_t room = s.visited_room;
    s.visited_room = room ? 2 * room : 1 << 14;
    s.visited_count = 0;
    s.visited = calloc(s.visited_room, sizeof *s.visited);
    if (!s.visited)
        abort();
    for (size_t i = 0; i < room; i++)
        if (old[i])
            put_visited(old[i]);
    free(old);
}

/* True once for each hash. */
static bool is_first_visit(uint64_t hash)
{
    hash += hash == 0;
    if (2 * s.visited_count >= s.visited_room)
        grow_visited();
    size_t place = hash & (s.visited_room - 1);
    for (; s.visited[place]; place = (place + 1) & (s.visited_room - 1))
        if (s.visited[place] == hash)
            return false;
    put_visited(hash);
    return true;
}

static uint64_t state_hash(void)
{
    uint64_t sum = memory_hash() + mix(0, (uint64_t)s.spurious);
    for (int i = 0; i < s.threads; i++)
        sum += mix(s.thread[i].history, (uint64_t)(i << 8 | (int)s.thread[i].state));
    for (int i = 0; i < LOCATIONS; i++)
        sum += s.futex[i].wakes;
    return sum;
}

/* ---- threads ----------------------------------------------------------------- */

static void remember(uint64_t what)
{
    thread *self = &s.thread[s.current];
    self->history = mix(self->history, what);
}

/* Places where the loop that thread `t` pauses in would find something newer. */
static int find_news(const thread *t, int news[LOCATIONS])
{
    int newer[MESSAGES];
    int count = 0;
    for (int i = 0; i < LOCATIONS; i++)
        if (t->looked[i] != NOWHERE && memory_newer(i, t->looked[i], newer) > 1)
            news[count++] = i;
    return count;
}

static bool can_run(const thread *t)
{
    int news[LOCATIONS];
    switch (t->state) {
    case READY:
        return true;
    case PAUSED:
        return t->has_limit || find_news(t, news) > 0;
    case JOINS:
        return s.thread[t->joins].state == DONE;
    default:
        return false;
    }
}

/* Another thread than `reader` will write there. */
static bool may_change(int location, int reader)
{
    for (int i = 0; i < s.threads; i++)
        if (i != reader && s.thread[i].state != DONE &&
            s.thread[i].writes < s.last_write[i][location])
            return true;
    return false;
}

/* What `number` does next is the same now as later. */
static bool goes_first(int number)
{
    const thread *t = &s.thread[number];
    if (t->state == JOINS)
        return s.thread[t->joins].state == DONE;
    return t->state == READY &&
           (t->is_local || (t->loads != NOWHERE && !may_change(t->loads, number)));
}

static bool naps(const thread *t)
{
    return t->state == ASLEEP && t->limit_ns > 0;
}

/* All threads that can be next; those that sleep and may be woken for nothing too. */
static int find_next(int next[THREADS])
{
    int count = 0;
    bool any = false;
    for (int i = 0; i < s.threads; i++) {
        any |= can_run(&s.thread[i]);
        next[0] = i;
        if (goes_first(i))
            return 1;
    }
    for (int i = 0; i < s.threads; i++)
        if (can_run(&s.thread[i]) ||
            (any && s.thread[i].state == ASLEEP && s.spurious > 0) ||
            (!any && naps(&s.thread[i])))
            next[count++] = i;
    return count;
}

static void name_the_stuck(void)
{
    char text[128] = "";
    size_t used = 0;
    for (int i = 0; i < s.threads; i++)
        if (s.thread[i].state != DONE && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " %d%s", i,
                                     s.thread[i].state == ASLEEP ? " asleep" : "");
    explore_fail("nobody can go on; threads%s", text);
}

static bool all_done(void)
{
    for (int i = 0; i < s.threads; i++)
        if (s.thread[i].state != DONE)
            return false;
    return true;
}

static void make_coroutine(int number);

/* Not through ucontext.h alone, which makes a system call for each switch. */
static void enter(int number)
{
    thread *t = &s.thread[number];
    s.current = number;
    if (t->has_begun)
        _longjmp(t->here, 1);
    t->has_begun = true;
    if (!coroutines[number].is_made)
        make_coroutine(number);
    _longjmp(coroutines[number].base, 1);
}

static void switch_to(int next)
{
    if (next == s.current)
        return;
    if (_setjmp(s.current == NOWHERE ? s.home : s.thread[s.current].here) == 0)
        enter(next);
}

/* Its limit is over, or it wakes for no reason. */
static void wake_unasked(thread *t)
{
    const bool is_late = t->limit_ns > 0;
    if (is_late)
        t->now_ns += t->limit_ns;
    else
        s.spurious--;
    t->history = mix(t->history, is_late ? 'L' : 'S');
    t->state = READY;
}

/* Let any thread be next; returns when the caller is. Home returns at the end. */
static void schedule(void)
{
    int next[THREADS];
    const int count = find_next(next);
    if (is_new_ground() && (count != 1 || !goes_first(next[0]))) {
        if (!is_first_visit(state_hash())) {
            if (s.current != NOWHERE)
                go_home();
            return;
        }
        s.result->states++;
    }
    if (count == 0) {
        s.has_ended = all_done();
        if (!s.has_ended)
            name_the_stuck();
        if (s.current != NOWHERE)
            go_home();
        return;
    }
    const int chosen = next[choose(count)];
    if (s.thread[chosen].state == ASLEEP)
        wake_unasked(&s.thread[chosen]);
    s.thread[chosen].is_local = false;
    s.thread[chosen].loads = NOWHERE;
    switch_to(chosen);
}

static void run_thread(void)
{
    thread *self = &s.thread[s.current];
    remember('B');
    self->main(self->argument);
    memory_step(s.current);
    self->state = DONE;
    schedule();
    assert(!"a thread that is done is not switched to");
}

static ucontext_t maker;

/* What a coroutine does: wait at its base, and run a thread whenever it is sent there.
 */
static void coroutine_main(int number)
{
    if (_setjmp(coroutines[number].base) == 0)
        swapcontext(&coroutines[number].context, &maker);
    run_thread();
}

static void make_coroutine(int number)
{
    ucontext_t *context = &coroutines[number].context;
    getcontext(context);
    context->uc_stack.ss_sp = coroutines[number].stack;
    context->uc_stack.ss_size = STACK_BYTES;
    makecontext(context, (void (*)(void))coroutine_main, 1, number);
    swapcontext(&maker, context);
    coroutines[number].is_made = true;
}

static void begin(int number, void *(*main)(void *), void *argument)
{
    thread *t = &s.thread[number];
    *t = (thread){.main = main,
                  .argument = argument,
                  .is_local = true,
                  .loads = NOWHERE,
                  .now_ns = 1};
    for (int i = 0; i < LOCATIONS; i++)
        t->looked[i] = NOWHERE;
}

int explore_start(void *(*main)(void *), void *argument)
{
    if (s.current == NOWHERE) {
        assert(s.started < THREADS && "more threads than the explorer has room for");
        s.start[s.started].main = main;
        s.start[s.started].argument = argument;
        return s.started++;
    }
    const int number = s.threads++;
    assert(number < THREADS && "more threads than the explorer has room for");
    begin(number, main, argument);
    memory_step(s.current);
    *memory_known(number) = *memory_known(s.current);
    return number;
}

void explore_join(int number)
{
    thread *self = &s.thread[s.current];
    note(NULL, "join", NULL);
    self->joins = number;
    self->state = JOINS;
    schedule();
    self->state = READY;
    remember('J');
    memory_learn(memory_known(s.current), memory_known(number));
}

/* ---- atomics ----------------------------------------------------------------- */

static bool is_outside(const uint32_t *object)
{
    if (s.current == NOWHERE)
        return true;
    if (!race_covers(object))
        explore_fail("an atomic outside of explored memory");
    return false;
}

/* The thread gives up: the message it has read before, if it has. */
static bool read_the_same(int location, uint32_t *value)
{
    const thread *self = &s.thread[s.current];
    if (!self->gives_up || self->looked[location] == NOWHERE)
        return false;
    *value = memory_value(location, self->looked[location]);
    return true;
}

static void learn_write(int location)
{
    thread *self = &s.thread[s.current];
    int *last = &s.last_write[s.current][location];
    if (++self->writes > *last) {
        *last = self->writes;
        s.has_learned = true;
    }
}

static bool needs_switch(const access *a)
{
    if (a->kind == STORE)
        return false;
    if (a->kind != LOAD)
        return true;
    if (!may_change(a->location, s.current))
        return false;
    s.thread[s.current].loads = a->location;
    return true;
}

static uint32_t perform(access *a, const uint32_t *object, explore_site *site)
{
    outcome ways[MESSAGES];
    uint32_t read;
    a->thread = s.current;
    a->location = memory_location(object);
    a->order = site->order[0];
    a->failed = site->order[1];
    site->uses++;
    if (a->kind == LOAD && read_the_same(a->location, &read))
        return read;
    if (needs_switch(a))
        schedule();
    const outcome way = ways[choose(memory_outcomes(a, ways))];
    read = memory_perform(a, way);
    step *shown = note(site, NULL, object);
    if (way.read != NOWHERE) {
        s.thread[s.current].looked[a->location] = way.read;
        remember(memory_writer(a->location, way.read));
        shown->has_read = true;
        shown->read = read;
        shown->writer = memory_writer(a->location, way.read);
    }
    if (way.place != NOWHERE)
        learn_write(a->location);
    shown->has_written = way.place != NOWHERE;
    shown->written = memory_written(a, read);
    return read;
}

uint32_t explore_load(const uint32_t *object, explore_site *site)
{
    if (is_outside(object))
        return s.has_ended ? memory_last(object) : *object;
    access a = {.kind = LOAD};
    return perform(&a, object, site);
}

void explore_store(uint32_t *object, uint32_t value, explore_site *site)
{
    if (is_outside(object)) {
        *object = value;
        return;
    }
    access a = {.kind = STORE, .value = value};
    perform(&a, object, site);
}

uint32_t explore_exchange(uint32_t *object, uint32_t value, explore_site *site)
{
    if (is_outside(object))
        return *object;
    access a = {.kind = EXCHANGE, .value = value};
    return perform(&a, object, site);
}

uint32_t explore_add(uint32_t *object, uint32_t value, explore_site *site)
{
    if (is_outside(object))
        return *object;
    access a = {.kind = ADD, .value = value};
    return perform(&a, object, site);
}

uint32_t explore_or(uint32_t *object, uint32_t value, explore_site *site)
{
    if (is_outside(object))
        return *object;
    access a = {.kind = OR, .value = value};
    return perform(&a, object, site);
}

static void check_shown(const explore_site *site)
{
    if (site->shipped[0] != memory_order_relaxed)
        explore_fail("%s: 64 bits are only shown, and relaxed", site->function);
}

uint64_t explore_load_shown(const uint64_t *object, const explore_site *site)
{
    check_shown(site);
    return *object;
}

void explore_store_shown(uint64_t *object, uint64_t value, const explore_site *site)
{
    check_shown(site);
    *object = value;
}

bool explore_compare_exchange(uint32_t *object, uint32_t *expected, uint32_t value,
                              explore_site *site)
{
    if (is_outside(object))
        return false;
    access a = {.kind = COMPARE, .value = value, .expected = *expected};
    const uint32_t read = perform(&a, object, site);
    const bool is_equal = read == *expected;
    *expected = read;
    return is_equal;
}

/* ---- futexes and spinning ------------------------------------------------------ */

/* The kernel reads the word for the running thread: the oldest message that it may read
 * with this value, or the oldest with another. Newer ones do the same and only rule out
 * more of what the thread may read later. */
static uint32_t read_in_kernel(int location, uint32_t value)
{
    knowledge *known = memory_known(s.current);
    int readable[MESSAGES];
    int distinct[2];
    int distinct_count = 0;
    knowledge both = *known;
    memory_learn(&both, &s.futex[location].wakers);
    const int count = memory_newer(location, both.view[location], readable);
    for (int i = 0; i < count && distinct_count < 2; i++) {
        const bool is_equal = memory_value(location, readable[i]) == value;
        if (distinct_count == 0 ||
            is_equal != (memory_value(location, distinct[0]) == value))
            distinct[distinct_count++] = readable[i];
    }
    const int message = distinct[choose(distinct_count)];
    known->view[location] = (uint8_t)message;
    remember(memory_writer(location, message));
    return memory_value(location, message);
}

void explore_futex_wait(const uint32_t *word, uint32_t value, uint64_t limit_ns)
{
    if (is_outside(word))
        return;
    schedule();
    const int location = memory_location(word);
    thread *self = &s.thread[s.current];
    step *shown = note(NULL, "futex wait", word);
    shown->has_read = true;
    shown->read = read_in_kernel(location, value);
    remember(s.futex[location].wakes);
    if (shown->read != value)
        return;
    if (limit_ns > 0 && s.scenario->spurious == EXPLORE_NAPS) {
        self->now_ns += limit_ns;
        return;
    }
    self->word = location;
    self->limit_ns = limit_ns;
    self->state = ASLEEP;
    schedule();
    remember('A');
    note(NULL, "awake", word);
}

void explore_futex_wake(const uint32_t *word, bool all)
{
    if (is_outside(word))
        return;
    schedule();
    const int location = memory_location(word);
    note(NULL, all ? "futex wake all" : "futex wake", word);
    memory_learn(&s.futex[location].wakers, memory_known(s.current));
    s.futex[location].wakes = mix(s.futex[location].wakes, s.thread[s.current].history);
    remember(s.futex[location].wakes);
    int asleep[THREADS];
    int count = 0;
    for (int i = 0; i < s.threads; i++)
        if (s.thread[i].state == ASLEEP && s.thread[i].word == location)
            asleep[count++] = i;
    if (count > 0 && !all) {
        asleep[0] = asleep[choose(count)];
        count = 1;
    }
    for (int i = 0; i < count; i++) {
        s.thread[asleep[i]].state = READY;
        s.thread[asleep[i]].is_local = true;
        s.thread[asleep[i]].history = mix(s.thread[asleep[i]].history, 'W');
        remember((uint64_t)asleep[i]);
    }
}

/* Read past what the loop has read last, at one of the places with something newer. */
static void go_on(thread *self, int location)
{
    int newer[MESSAGES];
    memory_newer(location, self->looked[location], newer);
    knowledge one = {.view[0] = 0};
    one.view[location] = (uint8_t)newer[1];
    memory_learn(memory_known(s.current), &one);
    remember((uint64_t)location + 1);
    for (int i = 0; i < LOCATIONS; i++)
        self->looked[i] = NOWHERE;
}

static void pause_loop(bool has_limit)
{
    if (s.current == NOWHERE || s.thread[s.current].gives_up)
        return;
    thread *self = &s.thread[s.current];
    int news[LOCATIONS];
    self->has_limit = has_limit;
    self->state = PAUSED;
    remember('P');
    schedule();
    self->state = READY;
    const int count = find_news(self, news);
    const int chosen = choose(count + has_limit);
    if (chosen < count) {
        go_on(self, news[chosen]);
    } else {
        self->gives_up = true;
        remember('G');
    }
}

void explore_retry(void)
{
    pause_loop(false);
}

void explore_pause(void)
{
    pause_loop(true);
}

uint64_t explore_now_ns(void)
{
    if (s.current == NOWHERE)
        return 0;
    thread *self = &s.thread[s.current];
    if (self->gives_up)
        self->now_ns += UINT64_C(3600000000000);
    self->gives_up = false;
    return self->now_ns;
}

/* ---- the search ---------------------------------------------------------------- */

static void execute(void)
{
    race_restore();
    memory_reset();
    memset(s.futex, 0, sizeof s.futex);
    s.threads = s.started;
    s.spurious = s.scenario->spurious;
    s.has_ended = false;
    s.step_count = 0;
    s.next_choice = 0;
    for (int i = 0; i < s.started; i++)
        begin(i, s.start[i].main, s.start[i].argument);
    schedule();
    if (s.has_ended && !s.result->violated && s.scenario->check)
        s.scenario->check();
    s.result->executions++;
    s.result->complete += s.has_ended;
    unsigned long steps = (unsigned long)s.step_count;
    if (steps > s.result->longest)
        s.result->longest = steps;
}

static void forget_states(void)
{
    if (s.visited)
        memset(s.visited, 0, s.visited_room * sizeof *s.visited);
    s.visited_count = 0;
    s.choice_count = 0;
    s.has_learned = false;
    s.result->states = s.result->complete = s.result->executions = 0;
}

void explore_run(const explore_scenario *scenario, explore_result *result)
{
    memset(result, 0, sizeof *result);
    s.scenario = scenario;
    s.result = result;
    s.started = 0;
    s.has_ended = false;
    memset(s.last_write, 0, sizeof s.last_write);
    forget_states();
    memory_forget();
    race_reset();
    scenario->set_up();
    race_remember();
    do {
        if (s.has_learned)
            forget_states();
        execute();
    } while (!result->violated && (s.has_learned || next_execution()));
}

extern explore_site *__start_explore_sites[];
extern explore_site *__stop_explore_sites[];

explore_site **explore_sites(size_t *count)
{
    *count = (size_t)(__stop_explore_sites - __start_explore_sites);
    return __start_explore_sites;
}
