/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h - the parts of the explorer: memory.c, race.c and search.c. */
#ifndef PST_TESTS_STAGES_EXPLORE_MACHINE_H
#define PST_TESTS_STAGES_EXPLORE_MACHINE_H

#include "tests/stages/explore/explore.h"

enum {
    THREADS = 4,
    LOCATIONS = 20,
    MESSAGES = 32, /* of a location                                              */
    EVENTS = 200,  /* of a thread                                                */
    NOWHERE = -1
};

/* What happens before a point of a thread: how many events of each thread, and the
 * newest message of each location that was written or read there. */
typedef struct knowledge {
    uint8_t seen[THREADS];
    uint8_t view[LOCATIONS];
} knowledge;

/* ---- memory.c: locations, messages, seq_cst -------------------------------- */

typedef enum access_kind { LOAD, STORE, EXCHANGE, ADD, OR, COMPARE } access_kind;

typedef struct access {
    access_kind kind;
    int thread;
    int location;
    memory_order order;
    memory_order failed; /* COMPARE that finds another value                     */
    uint32_t value;
    uint32_t expected;
} access;

/* One way in which an access can go: the message it reads, and where in the location's
 * order the one it writes will stand; NOWHERE for none. */
typedef struct outcome {
    int read;
    int place;
} outcome;

/* Another program; then, each execution anew. */
void memory_forget(void);
void memory_reset(void);

/* The same for all executions of a program. */
int memory_location(const uint32_t *address);

/* All ways in which it can go; at least one. */
int memory_outcomes(const access *a, outcome out[MESSAGES]);

/* Returns what was read. */
uint32_t memory_perform(const access *a, outcome way);

/* What it writes, if it does, where it reads `read`. */
uint32_t memory_written(const access *a, uint32_t read);

/* What `thread` knows; may be changed. */
knowledge *memory_known(int thread);
void memory_learn(knowledge *k, const knowledge *more);

/* A step of `thread` that is no access of an atomic. */
void memory_step(int thread);

/* Messages of `location` from `oldest` on, in its order. */
int memory_newer(int location, int oldest, int out[MESSAGES]);
uint32_t memory_value(int location, int message);
/* Thread << 8 | event that wrote it. */
unsigned memory_writer(int location, int message);
/* The last value in the order of `address`. */
uint32_t memory_last(const uint32_t *address);
/* Of all messages, in their orders. */
uint64_t memory_hash(void);

/* ---- race.c: plain accesses ------------------------------------------------ */

void race_reset(void);    /* another program: nothing is allocated               */
void race_remember(void); /* memory is as set_up() left it                       */
void race_restore(void);  /* as set_up() left it, and nobody has touched it      */
bool race_covers(const void *address);
size_t race_offset(const void *address);

/* ---- search.c ---------------------------------------------------------------- */

/* The running thread; NOWHERE outside of an execution. */
int search_thread(void);

/* ---- shared ------------------------------------------------------------------ */

static inline uint64_t mix(uint64_t hash, uint64_t more)
{
    /* Steele and others' splitmix64, as a chain */
    hash = (hash ^ more) + 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

#endif
