/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.h - what the runtime takes from the system: threads, sleep, time, CPUs.
 *
 * The only place that knows pthreads and futexes.
 */
#ifndef PENSTOCK_STAGES_THREAD_H
#define PENSTOCK_STAGES_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/error.h>

#include "stages/atomic.h"

typedef struct pst_thread {
    uintptr_t handle;
} pst_thread;

/*
 * Start a thread that runs main(argument) with all signals blocked but those that it
 * can cause itself by a fault: blocked, they would end the process without the host's
 * handler. The caller's mask stays as it is. `name` is cut to 15 letters. The thread
 * has a signal stack until main() returns, so that a handler with SA_ONSTACK can tell
 * of a stack that is used up. Errors: PST_ENOMEM, PST_ESYSTEM.
 */
pst_status pst__thread_start(pst_thread *thread, void *(*main)(void *), void *argument,
                             const char *name, pst_error *err);
void pst__thread_join(pst_thread *thread);
void pst__thread_detach(pst_thread *thread);

/* Of the calling thread: the kernel's number, and the CPU it is on (-1: unknown). */
int pst__thread_id(void);
int pst__thread_cpu(void);

/* The CPUs the calling thread may use: how many (0: unknown), and as a list of numbers
 * ("0", "2-3,8"), cut to `size`; returns text. */
int pst__thread_cpu_count(void);
char *pst__thread_cpus(char *text, size_t size);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t pst__now_ns(void);

/* Let others have this core. */
void pst__thread_yield(void);

/* Of the calling thread: have its timeouts end when they say, and not 50 us later. */
void pst__thread_sleep_exactly(void);

/* Tell the core that this thread spins. */
void pst__pause(void);

/* Ask for a cache line that this thread will write soon. A hint: any address will do.
 */
static inline void pst__fetch_to_write(const void *address)
{
#if defined(__x86_64__)
    /* What __builtin_prefetch makes of it without -mprfchw gets the line to read only,
     * and it is then asked for once more. All x86-64 CPUs take this instruction. */
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)address));
#else
    __builtin_prefetch(address, 1);
#endif
}

/* Sleep while *word == value, until woken or for timeout_ns (0: no limit). May return
 * early for no reason. */
void pst__futex_wait(pst_atomic_u32 *word, uint32_t value, uint64_t timeout_ns);

/* Wake one sleeper, or all. Async-signal-safe. */
void pst__futex_wake(pst_atomic_u32 *word, bool all);

/* Look at *word for spin_ns at most. True: it differs from `value`, and what was
 * written before the change is seen. */
bool pst__look_for_change(pst_atomic_u32 *word, uint32_t value, uint64_t spin_ns);

/*
 * Return when *word differs from `value`: look for spin_ns, then sleep. Who changes the
 * word wakes all sleepers afterwards. What was written before the change is seen.
 */
void pst__wait_change(pst_atomic_u32 *word, uint32_t value, uint64_t spin_ns);

/*
 * A lock, and a sleep for what it guards: for what waits on other processes, where a
 * message takes longer than any lock. Among the workers of a process there is none.
 */
typedef struct pst_monitor {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} pst_monitor;

void pst__monitor_init(pst_monitor *monitor);
void pst__monitor_fini(pst_monitor *monitor);
void pst__monitor_enter(pst_monitor *monitor);
/* False: another thread is in it. */
bool pst__monitor_try(pst_monitor *monitor);
void pst__monitor_leave(pst_monitor *monitor);
/* Inside: let others in and sleep until woken, or for timeout_ns. May return early. */
void pst__monitor_sleep(pst_monitor *monitor, uint64_t timeout_ns);
/* Wake all that sleep. */
void pst__monitor_wake(pst_monitor *monitor);

#endif
