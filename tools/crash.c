/* SPDX-License-Identifier: BSD-3-Clause */
/* crash.c - last messages; all that handlers call is async-signal-safe. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tools/crash.h"
#include "tools/say.h"

static const pst_pipeline *_Atomic watched;

/* What the main thread is at. */
static const char *_Atomic main_place;
static _Atomic int64_t main_step;

/* Is exit() for main alone now? */
static atomic_int guarded;

/* The thread that writes the last message, 0: none yet. */
static atomic_int writer;

static const struct {
    int number;
    const char *text;
} faults[] = {
    {SIGSEGV, "SIGSEGV (invalid memory access)"},
    {SIGBUS, "SIGBUS (invalid memory access)"},
    {SIGFPE, "SIGFPE (arithmetic error)"},
    {SIGILL, "SIGILL (illegal instruction)"},
    {SIGABRT, "SIGABRT (abort)"},
};

/* A line that is put together without stdio. */
typedef struct line {
    char text[512];
    size_t length;
} line;

static void put(line *l, const char *text)
{
    for (; *text && l->length < sizeof l->text - 1; text++)
        l->text[l->length++] = *text;
}

static void put_number(line *l, int64_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(l, digits + at);
}

static void put_counted(line *l, const char *before, int64_t number)
{
    if (number < 0)
        return;
    put(l, before);
    put_number(l, number);
}

/* " in stage 2, microbatch 5, forward, on rank 2, in step 1" */
static void put_place(line *l)
{
    pst_whereabouts place;
    const pst_pipeline *pipeline = atomic_load(&watched);
    const char *doing = atomic_load(&main_place);
    if (pipeline != NULL && pst_pipeline_here(pipeline, &place)) {
        put_counted(l, " in stage ", place.stage);
        put_counted(l, ", microbatch ", place.microbatch);
        put(l, place.stage < 0 ? " in " : ", ");
        put(l, place.name);
        put_counted(l, ", on rank ", place.rank);
        put_counted(l, ", in step ", place.iteration + 1);
    } else if (doing != NULL) {
        put(l, " in ");
        put(l, doing);
        put_counted(l, ", in step ", atomic_load(&main_step));
    } else {
        put(l, " outside the stages");
    }
}

static void write_line(line *l)
{
    size_t done = 0;
    l->text[l->length++] = '\n';
    while (done < l->length) {
        const ssize_t written = write(STDERR_FILENO, l->text + done, l->length - done);
        if (written <= 0)
            return;
        done += (size_t)written;
    }
}

static void say_last(const char *what, const char *after)
{
    line l = {.length = 0};
    put(&l, say_program_name());
    put(&l, ": ");
    put(&l, what);
    put_place(&l);
    put(&l, after);
    write_line(&l);
}

/* The first thread goes on; all others stay here until it has ended the process. One
 * that comes back while it writes has crashed once more: no message then. */
static int is_first(void)
{
    int none = 0;
    const int self = (int)syscall(SYS_gettid);
    if (atomic_compare_exchange_strong(&writer, &none, self))
        return 1;
    while (none != self)
        pause();
    return 0;
}

static void on_fault(int number)
{
    if (is_first())
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
            if (faults[i].number == number)
                say_last(faults[i].text, "");
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &usual, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    _exit(128 + number);
}

static void on_alarm(int number)
{
    (void)number;
    if (is_first())
        say_last("stuck for longer than the watchdog's limit", "");
    _exit(1);
}

/* Handlers of exit() run in the reverse order: this one comes before those of
 * libraries, which may wait for threads that never end. */
static void on_exit_call(void)
{
    if (!atomic_load(&guarded))
        return;
    if (is_first())
        say_last("exit() was called", "; this run is not complete");
    _exit(1);
}

/* Where the main thread's handlers run once its own stack is used up; workers have one
 * from the library. */
static void give_signal_stack(void)
{
    static char room[1 << 16];
    const stack_t own = {.ss_sp = room, .ss_size = sizeof room};
    stack_t present;
    if (sigaltstack(NULL, &present) == 0 && present.ss_flags & SS_DISABLE)
        sigaltstack(&own, NULL);
}

void crash_catch(void)
{
    static int once;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    give_signal_stack();
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i].number, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    if (!once)
        atexit(on_exit_call);
    once = 1;
    atomic_store(&guarded, 1);
}

void crash_ignore(void)
{
    atomic_store(&guarded, 0);
}

void crash_watch(const pst_pipeline *pipeline)
{
    atomic_store(&watched, pipeline);
}

void crash_enter(const char *what, int64_t step, double seconds)
{
    struct itimerval limit = {.it_value = {.tv_sec = 0}};
    atomic_store(&main_step, step);
    atomic_store(&main_place, what);
    if (what != NULL && seconds > 0) {
        limit.it_value.tv_sec = (time_t)seconds;
        limit.it_value.tv_usec =
            (suseconds_t)((seconds - (double)limit.it_value.tv_sec) * 1e6) + 1;
    }
    setitimer(ITIMER_REAL, &limit, NULL);
}
