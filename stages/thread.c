/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - threads, futexes, clock and CPU sets of Linux. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "stages/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(pthread_t) <= sizeof(uintptr_t), "a handle holds a pthread_t");
_Static_assert(sizeof(pst_atomic_u32) == 4, "the kernel compares four bytes");

static pthread_t handle_of(const pst_thread *thread)
{
    pthread_t handle;
    memcpy(&handle, &thread->handle, sizeof handle);
    return handle;
}

/* What a thread needs beside its stack; the thread's own from its start on. */
typedef struct thread_room {
    void *(*main)(void *);
    void *argument;
    _Alignas(64) char signal_stack[1 << 16];
} thread_room;

/* A stack that is there already, as AddressSanitizer's, stays. */
static void *run_thread(void *argument)
{
    thread_room *room = argument;
    const stack_t own = {.ss_sp = room->signal_stack,
                         .ss_size = sizeof room->signal_stack};
    stack_t present = {.ss_flags = 0};
    sigaltstack(NULL, &present);
    const bool needed = present.ss_flags & SS_DISABLE;
    if (needed)
        sigaltstack(&own, NULL);
    void *result = room->main(room->argument);
    if (needed)
        sigaltstack(&present, NULL);
    munmap(room, sizeof *room);
    return result;
}

pst_status pst__thread_start(pst_thread *thread, void *(*main)(void *), void *argument,
                             const char *name, pst_error *err)
{
    thread_room *room = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return pst_error_set(err, PST_ENOMEM, "no memory for thread %s", name);
    room->main = main;
    room->argument = argument;
    /* A thread inherits the mask of its creator. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++)
        sigdelset(&all, own_faults[i]);
    int refused = pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t handle;
    const bool masked = !refused;
    if (masked) {
        refused = pthread_create(&handle, NULL, run_thread, room);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (refused)
        munmap(room, sizeof *room);
    if (!masked)
        return pst_error_set(err, PST_ESYSTEM, "signals cannot be blocked: %s",
                             strerror(refused));
    if (refused)
        return pst_error_set(err, PST_ESYSTEM,
                             "thread %s could not be started: %s; fewer ranks or a "
                             "higher limit of threads would work",
                             name, strerror(refused));
    char cut[16];
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(handle, cut);
    memcpy(&thread->handle, &handle, sizeof handle);
    return PST_OK;
}

void pst__thread_join(pst_thread *thread)
{
    pthread_join(handle_of(thread), NULL);
}

void pst__thread_detach(pst_thread *thread)
{
    pthread_detach(handle_of(thread));
}

int pst__thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

int pst__thread_cpu(void)
{
    return sched_getcpu();
}

/* The kernel's set has an unknown size: ask with larger ones until it fits. */
enum { CPUS_AT_MOST = 1 << 16 };

typedef struct cpu_list {
    size_t bytes;
    unsigned char bits[CPUS_AT_MOST / 8];
} cpu_list;

static bool read_affinity(cpu_list *list)
{
    for (list->bytes = 128; list->bytes <= sizeof list->bits; list->bytes *= 2) {
        long got = syscall(SYS_sched_getaffinity, 0, list->bytes, list->bits);
        if (got > 0) {
            list->bytes = (size_t)got;
            return true;
        }
        if (errno != EINVAL)
            return false;
    }
    return false;
}

static bool has_cpu(const cpu_list *list, size_t cpu)
{
    if (cpu / 8 >= list->bytes)
        return false;
    const size_t word = cpu / (8 * sizeof(unsigned long));
    unsigned long bits;
    memcpy(&bits, list->bits + word * sizeof bits, sizeof bits);
    return bits >> cpu % (8 * sizeof bits) & 1;
}

int pst__thread_cpu_count(void)
{
    cpu_list list;
    int count = 0;
    if (!read_affinity(&list))
        return 0;
    for (size_t cpu = 0; cpu < 8 * list.bytes; cpu++)
        count += has_cpu(&list, cpu);
    return count;
}

char *pst__thread_cpus(char *text, size_t size)
{
    cpu_list list;
    size_t used = 0;
    text[0] = '\0';
    if (!read_affinity(&list))
        return text;
    for (size_t cpu = 0; cpu < 8 * list.bytes; cpu++) {
        if (!has_cpu(&list, cpu))
            continue;
        const size_t first = cpu;
        while (has_cpu(&list, cpu + 1))
            cpu++;
        char range[48];
        int length = first == cpu
                         ? snprintf(range, sizeof range, "%zu", first)
                         : snprintf(range, sizeof range, "%zu-%zu", first, cpu);
        if (used + (size_t)length + 2 > size)
            return text;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", range);
    }
    return text;
}

uint64_t pst__now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void pst__thread_yield(void)
{
    sched_yield();
}

void pst__thread_sleep_exactly(void)
{
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
}

void pst__pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

void pst__futex_wait(pst_atomic_u32 *word, uint32_t value, uint64_t timeout_ns)
{
    const struct timespec limit = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                                   .tv_nsec = (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns ? &limit : NULL,
            NULL, 0);
}

void pst__futex_wake(pst_atomic_u32 *word, bool all)
{
    const int saved = errno; /* a signal handler may be the caller */
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, all ? INT_MAX : 1, NULL, NULL, 0);
    errno = saved;
}

bool pst__look_for_change(pst_atomic_u32 *word, uint32_t value, uint64_t spin_ns)
{
    const uint64_t start = spin_ns ? pst__now_ns() : 0;
    for (unsigned looks = 1; spin_ns; looks++) {
        /* acquire: pairs with the release of whoever changes the word, so that what
         * was written before the change is read after it. */
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return true;
        pst__pause();
        if (looks % 64 == 0 && pst__now_ns() - start > spin_ns)
            return false;
    }
    return false;
}

void pst__wait_change(pst_atomic_u32 *word, uint32_t value, uint64_t spin_ns)
{
    if (pst__look_for_change(word, value, spin_ns))
        return;
    /* No wake-up is lost: the kernel compares the word once more, with wakers held
     * off, before it puts this thread to sleep. acquire: as above. */
    while (atomic_load_explicit(word, memory_order_acquire) == value)
        pst__futex_wait(word, value, 0);
}

void pst__monitor_init(pst_monitor *monitor)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&monitor->mutex, NULL);
    pthread_cond_init(&monitor->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void pst__monitor_fini(pst_monitor *monitor)
{
    pthread_cond_destroy(&monitor->changed);
    pthread_mutex_destroy(&monitor->mutex);
}

void pst__monitor_enter(pst_monitor *monitor)
{
    pthread_mutex_lock(&monitor->mutex);
}

bool pst__monitor_try(pst_monitor *monitor)
{
    return pthread_mutex_trylock(&monitor->mutex) == 0;
}

void pst__monitor_leave(pst_monitor *monitor)
{
    pthread_mutex_unlock(&monitor->mutex);
}

void pst__monitor_sleep(pst_monitor *monitor, uint64_t timeout_ns)
{
    const uint64_t end = pst__now_ns() + timeout_ns;
    const struct timespec at = {.tv_sec = (time_t)(end / 1000000000),
                                .tv_nsec = (long)(end % 1000000000)};
    pthread_cond_timedwait(&monitor->changed, &monitor->mutex, &at);
}

void pst__monitor_wake(pst_monitor *monitor)
{
    pthread_cond_broadcast(&monitor->changed);
}
