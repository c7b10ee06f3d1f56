/* SPDX-License-Identifier: BSD-3-Clause */
/* test_thread.c - threads with a name and no signals, waiting for a word, CPU lists. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stages/thread.h"
#include "tests/suite.h"

typedef struct look {
    pst_atomic_u32 named;
    char name[32];
    sigset_t mask;
    int id;
    int kernel_id;
} look;

static void *look_around(void *argument)
{
    look *seen = argument;
    pst__wait_change(&seen->named, 0, 0);
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
    seen->id = pst__thread_id();
    seen->kernel_id = (int)syscall(SYS_gettid);
    return NULL;
}

static void start_and_join(look *seen, const char *name)
{
    pst_thread thread;
    pst_error err = PST_ERROR_INIT;
    ck_assert_int_eq(pst__thread_start(&thread, look_around, seen, name, &err), PST_OK);
    ck_assert_int_eq(err.status, PST_OK);
    atomic_store(&seen->named, 1);
    pst__futex_wake(&seen->named, true);
    pst__thread_join(&thread);
}

START_TEST(test_name)
{
    look seen = {.named = 0};
    start_and_join(&seen, "pst-rank-7");
    ck_assert_str_eq(seen.name, "pst-rank-7");
    ck_assert_int_eq(seen.id, seen.kernel_id);
    ck_assert_int_ne(seen.id, pst__thread_id());
    seen.named = 0;
    start_and_join(&seen, "a name that is far too long");
    ck_assert_str_eq(seen.name, "a name that is ");
}
END_TEST

static int is_blocked_in_threads(int number)
{
    return number != SIGSEGV && number != SIGBUS && number != SIGFPE &&
           number != SIGILL && number != SIGTRAP;
}

START_TEST(test_mask)
{
    look seen = {.named = 0};
    sigset_t before;
    sigset_t after;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    start_and_join(&seen, "masked");
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int number = 1; number <= 31; number++) {
        ck_assert_int_eq(sigismember(&after, number), number == SIGUSR1);
        if (number != SIGKILL && number != SIGSTOP)
            ck_assert_int_eq(sigismember(&seen.mask, number),
                             is_blocked_in_threads(number));
    }
}
END_TEST

typedef struct relay {
    pst_atomic_u32 there;
    pst_atomic_u32 back;
    uint64_t spin_ns;
    uint64_t value; /* handed to and fro                                       */
} relay;

enum { LAPS = 2000 };

static void hand_over(pst_atomic_u32 *word)
{
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    pst__futex_wake(word, true);
}

static void *answer(void *argument)
{
    relay *r = argument;
    for (uint32_t lap = 0; lap < LAPS; lap++) {
        pst__wait_change(&r->there, lap, r->spin_ns);
        r->value = r->value * 3 + 1;
        hand_over(&r->back);
    }
    return NULL;
}

/* What was written before a change is seen after it, and no wake-up is lost. */
START_TEST(test_wait_change)
{
    static const uint64_t spins[] = {0, 1, 50000};
    relay r = {.spin_ns = spins[_i]};
    pst_thread thread;
    uint64_t wanted = 0;
    ck_assert_int_eq(pst__thread_start(&thread, answer, &r, "answer", NULL), PST_OK);
    for (uint32_t lap = 0; lap < LAPS; lap++) {
        r.value += lap;
        hand_over(&r.there);
        pst__wait_change(&r.back, lap, r.spin_ns);
        wanted = (wanted + lap) * 3 + 1;
        ck_assert_uint_eq(r.value, wanted);
    }
    pst__thread_join(&thread);
    pst__wait_change(&r.back, 0, r.spin_ns); /* has changed: returns at once */
}
END_TEST

/* A wait with a limit ends even though nobody wakes, and one for a value that is not
 * there does not begin. */
START_TEST(test_futex_wait_returns)
{
    pst_atomic_u32 word = 5;
    const uint64_t start = pst__now_ns();
    pst__futex_wait(&word, 4, 0);
    pst__futex_wait(&word, 5, 1000000);
    ck_assert_uint_ge(pst__now_ns(), start);
    pst__pause();
}
END_TEST

static void bind_to(const int *cpus, int count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        CPU_SET((size_t)cpus[i], &set);
    ck_assert_int_eq(sched_setaffinity(0, sizeof set, &set), 0);
}

static int allowed_cpus(int *cpus)
{
    cpu_set_t set;
    int count = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &set))
            cpus[count++] = cpu;
    return count;
}

/* Every list of at most three of the CPUs that there are, read back. */
START_TEST(test_cpus)
{
    static int cpus[CPU_SETSIZE];
    const int count = allowed_cpus(cpus);
    char text[64];
    ck_assert_int_eq(pst__thread_cpu_count(), count);
    for (int i = 0; i < count && i < 8; i++) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "%d", cpus[i]);
        bind_to(&cpus[i], 1);
        ck_assert_int_eq(pst__thread_cpu_count(), 1);
        ck_assert_str_eq(pst__thread_cpus(text, sizeof text), wanted);
        ck_assert_int_eq(pst__thread_cpu(), cpus[i]);
        ck_assert_str_eq(pst__thread_cpus(text, 1), "");
    }
    bind_to(cpus, count);
}
END_TEST

START_TEST(test_cpu_ranges)
{
    static int cpus[CPU_SETSIZE];
    const int count = allowed_cpus(cpus);
    char text[64];
    char wanted[32];
    for (int i = 0; i + 1 < count && i < 8; i++) {
        const int pair[2] = {cpus[i], cpus[i + 1]};
        snprintf(wanted, sizeof wanted, "%d%c%d", pair[0],
                 pair[1] == pair[0] + 1 ? '-' : ',', pair[1]);
        bind_to(pair, 2);
        ck_assert_str_eq(pst__thread_cpus(text, sizeof text), wanted);
    }
    for (int i = 0; i + 2 < count && i < 8; i++) {
        const int pair[2] = {cpus[i], cpus[i + 2]};
        snprintf(wanted, sizeof wanted, "%d,%d", pair[0], pair[1]);
        bind_to(pair, 2);
        ck_assert_str_eq(pst__thread_cpus(text, sizeof text), wanted);
        snprintf(wanted, sizeof wanted, "%d", pair[0]);
        ck_assert_str_eq(pst__thread_cpus(text, strlen(text)), wanted);
    }
    bind_to(cpus, count);
}
END_TEST

static void *wait_for_ever(void *argument)
{
    pst__wait_change(argument, 0, 0);
    return NULL;
}

START_TEST(test_detach)
{
    static pst_atomic_u32 word;
    pst_thread thread;
    ck_assert_int_eq(pst__thread_start(&thread, wait_for_ever, &word, "d", NULL),
                     PST_OK);
    pst__thread_detach(&thread);
    hand_over(&word);
}
END_TEST

Suite *pst_test_suite(void)
{
    Suite *suite = suite_create("thread");
    TCase *all = tcase_create("thread");
    tcase_set_timeout(all, 120);
    tcase_add_test(all, test_name);
    tcase_add_test(all, test_mask);
    tcase_add_loop_test(all, test_wait_change, 0, 3);
    tcase_add_test(all, test_futex_wait_returns);
    tcase_add_test(all, test_cpus);
    tcase_add_test(all, test_cpu_ranges);
    tcase_add_test(all, test_detach);
    suite_add_tcase(suite, all);
    return suite;
}
