/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shipped.c - the explorer's place of the system, and the shipped sources that are used
 * by their interfaces alone.
 *
 * What they take from the system is replaced below, and nothing else.
 */
#include "tests/stages/explore/atomic.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/stages/explore/scenarios.h"

#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define SEES_PLAIN_ACCESSES true
#endif
#endif
#if defined __SANITIZE_THREAD__
#define SEES_PLAIN_ACCESSES true
#endif
#ifndef SEES_PLAIN_ACCESSES
#define SEES_PLAIN_ACCESSES false
#endif

const bool explore_sees_plain_accesses = SEES_PLAIN_ACCESSES;

/* ---- the system --------------------------------------------------------------- */

/* Futexes; there is nothing else. */
static long model_syscall(long number, ...)
{
    va_list arguments;
    if (number != SYS_futex) {
        errno = ENOSYS;
        return -1;
    }
    va_start(arguments, number);
    uint32_t *word = va_arg(arguments, uint32_t *);
    const int operation = va_arg(arguments, int);
    const uint32_t value = va_arg(arguments, uint32_t);
    const struct timespec *limit = va_arg(arguments, const struct timespec *);
    va_end(arguments);
    if (operation == FUTEX_WAIT_PRIVATE)
        explore_futex_wait(word, value,
                           limit ? (uint64_t)limit->tv_sec * 1000000000u +
                                       (uint64_t)limit->tv_nsec
                                 : 0);
    else
        explore_futex_wake(word, value != 1);
    return 0;
}

static int model_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    const uint64_t ns = explore_now_ns();
    *now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

static int model_create(pthread_t *handle, const pthread_attr_t *attributes,
                        void *(*main)(void *), void *argument)
{
    (void)attributes;
    *handle = (pthread_t)explore_start(main, argument);
    return 0;
}

static int model_join(pthread_t handle, void **result)
{
    (void)result;
    explore_join((int)handle);
    return 0;
}

static int model_name(pthread_t handle, const char *name)
{
    (void)handle;
    (void)name;
    return 0;
}

/* A thread's room is for the system alone, and each execution finds it as the one
 * before it did: so it is never given back. More rooms than a scenario has threads. */
static void *model_map(void *at, size_t bytes, int protection, int flags, int file,
                       off_t offset)
{
    static _Alignas(4096) char rooms[16][1 << 17];
    static unsigned used;
    (void)at, (void)protection, (void)flags, (void)file, (void)offset;
    return bytes <= sizeof *rooms ? rooms[used++ % 16] : MAP_FAILED;
}

static int model_unmap(void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
    return 0;
}

static int model_signal_stack(const stack_t *wanted, stack_t *present)
{
    (void)wanted;
    if (present)
        present->ss_flags = 0; /* there is one */
    return 0;
}

/* pst__pause() is a call and pst__pause(void) the shipped one, which pauses a core. */
void pst__pause(void);
void shipped_pause(void);
#define PAUSE_     explore_pause()
#define PAUSE_void shipped_pause(void)

#define syscall            model_syscall
#define clock_gettime      model_clock_gettime
#define pthread_create     model_create
#define pthread_join       model_join
#define pthread_setname_np model_name
#define sigaltstack        model_signal_stack
#define mmap               model_map
#define munmap             model_unmap
#define pst__pause(kind)   PAUSE_##kind
#include "stages/thread.c"
#undef pst__pause

void pst__pause(void)
{
    explore_pause();
}

#include "stages/channel.c"
#include "stages/dump.c"
#include "stages/flow.c"
#include "stages/ring.c"
#include "stages/settle.c"
#include "stages/tie.c"
