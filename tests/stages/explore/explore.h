/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explore.h - runs a small program of threads in every way that C11 allows.
 *
 * The memory model is RC11 (Lahav and others, "Repairing sequential consistency in
 * C/C++11", PLDI 2017), which C++20 took over: a load may read any message of its
 * location that coherence and happens-before leave it, a store may stand anywhere in
 * the location's order after what its thread knows, and the seq_cst accesses must have
 * an order. So outcomes that x86 never shows are among those explored. What it leaves
 * out: loads that read from stores which follow them (no promises), fences, and weak
 * compare-exchange; the explored files have neither of the last two.
 *
 * Plain accesses to explored memory are seen through the compiler's own
 * instrumentation for ThreadSanitizer, whose functions are replaced: two of them that
 * no happens-before orders are a violation.
 *
 * Futexes: sleep compares the word with a message that the thread may read and that is
 * not older than what an earlier waker of this word knew; comparing and falling asleep
 * are one step. That is all the kernel is trusted with: being woken orders nothing. A
 * sleep with a limit ends by itself when nobody can go on; in a scenario with naps at
 * once, so that nothing can rely on it.
 *
 * States that were seen are not entered again. A state is the graph of what was
 * executed and read, so equal ones have the same future.
 *
 * One thing at a time in a process; nothing here is for several threads.
 */
#ifndef PST_TESTS_STAGES_EXPLORE_H
#define PST_TESTS_STAGES_EXPLORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/env.h>

/* One use of an atomic in the shipped text. */
typedef struct explore_site {
    const char *file;
    int line;
    const char *function;
    const char *object;
    const char *operation;
    memory_order
        shipped[2];        /* of success and of failure, the same where there is one */
    memory_order order[2]; /* what is explored                                       */
    unsigned long uses;
} explore_site;

/* All sites of the program, in no particular order. */
explore_site **explore_sites(size_t *count);

/* ---- a program ------------------------------------------------------------- */

typedef enum explore_size {
    EXPLORE_SMALL, /* a tenth of a second                                         */
    EXPLORE_LARGE, /* a second: weaker orders are not tried with it               */
    EXPLORE_LONG   /* more: only where there is time                              */
} explore_size;

enum { EXPLORE_NAPS = -1 }; /* sleeps with a limit end at once                   */

typedef struct explore_scenario {
    const char *name;
    /* Allocates from explore_env, sets up, starts threads. Runs once, alone. */
    void (*set_up)(void);
    /* All threads have ended: explore_fail() if what is left is wrong. May be NULL. */
    void (*check)(void);
    int spurious; /* this many sleepers are woken for no reason, at any time; or: */
    explore_size size;
} explore_scenario;

/* Zeroed memory in which accesses are explored, and which starts alike every time. */
extern const pst_env explore_env;

/* Starts a thread, also from a thread; returns its number, from 0. */
int explore_start(void *(*main)(void *), void *argument);
void explore_join(int thread);

/* The property does not hold in this execution. From a thread it does not return. */
void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- what the shipped text calls ------------------------------------------- */

uint32_t explore_load(const uint32_t *object, explore_site *site);
void explore_store(uint32_t *object, uint32_t value, explore_site *site);
uint32_t explore_exchange(uint32_t *object, uint32_t value, explore_site *site);
uint32_t explore_add(uint32_t *object, uint32_t value, explore_site *site);
uint32_t explore_or(uint32_t *object, uint32_t value, explore_site *site);
bool explore_compare_exchange(uint32_t *object, uint32_t *expected, uint32_t value,
                              explore_site *site);
void explore_futex_wait(const uint32_t *word, uint32_t value, uint64_t limit_ns);
void explore_futex_wake(const uint32_t *word, bool all);

/* Of 64 bits are only what is shown to people: relaxed, and here just memory. */
uint64_t explore_load_shown(const uint64_t *object, const explore_site *site);
void explore_store_shown(uint64_t *object, uint64_t value, const explore_site *site);

/*
 * Between two rounds of a loop that looks at atomics: goes on when one of those looked
 * at since the last round has a newer value, as rounds that read the same lead nowhere.
 * A loop with a limit of time may also give up: it reads the same until it looks at the
 * clock, which has then moved.
 */
void explore_retry(void);
void explore_pause(void); /* in a loop with a limit                              */
uint64_t explore_now_ns(void);

/* ---- running it ------------------------------------------------------------ */

typedef struct explore_result {
    unsigned long executions; /* up to a state that was seen, or the end          */
    unsigned long complete;   /* those up to the end                              */
    unsigned long states;
    unsigned long longest; /* steps of an execution                               */
    bool violated;
    char text[256];   /* which property                                           */
    char trace[8192]; /* the execution, a line a step                             */
} explore_result;

/* Everything, or up to the first violation. */
void explore_run(const explore_scenario *scenario, explore_result *result);

#endif
