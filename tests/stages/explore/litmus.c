/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * litmus.c - small programs with known answers, to test the explorer itself.
 *
 * Each reports one outcome as a violation. Whether C11 allows it (RC11, and C++20)
 * stands in the table; names are those of the literature.
 */
#include "tests/stages/explore/atomic.h"

#include "tests/stages/explore/litmus.h"

#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release
#define SC  memory_order_seq_cst

#define LOAD(object, order)         atomic_load_explicit(&l->object, order)
#define STORE(object, value, order) atomic_store_explicit(&l->object, value, order)

typedef struct litmus {
    pst_atomic_u32 x;
    pst_atomic_u32 y;
    uint32_t plain;
    uint32_t r[4];
} litmus;

static litmus *l;

typedef void *(*litmus_thread)(void *);

static void start(litmus_thread first, litmus_thread second, litmus_thread third,
                  litmus_thread fourth)
{
    const litmus_thread threads[] = {first, second, third, fourth};
    l = pst_allocate(&explore_env, sizeof *l);
    for (int i = 0; i < 4; i++)
        if (threads[i])
            explore_start(threads[i], NULL);
}

/* A thread of the name, whose text is the rest. */
#define THREAD(name, ...)                                                              \
    static void *name(void *unused)                                                    \
    {                                                                                  \
        __VA_ARGS__;                                                                   \
        return unused;                                                                 \
    }

/* Programs of up to four threads, and the outcome that is looked for. */
#define PROGRAM(name, first, second, third, fourth, outcome)                           \
    static void name(void)                                                             \
    {                                                                                  \
        start(first, second, third, fourth);                                           \
    }                                                                                  \
    static void name##_check(void)                                                     \
    {                                                                                  \
        if (outcome)                                                                   \
            explore_fail("there it is");                                               \
    }

/* Store buffering: both read the old value. */
THREAD(sb_rel_1, STORE(x, 1, REL); l->r[0] = LOAD(y, ACQ))
THREAD(sb_rel_2, STORE(y, 1, REL); l->r[1] = LOAD(x, ACQ))
PROGRAM(sb_rel, sb_rel_1, sb_rel_2, NULL, NULL, !l->r[0] && !l->r[1])
THREAD(sb_sc_1, STORE(x, 1, SC); l->r[0] = LOAD(y, SC))
THREAD(sb_sc_2, STORE(y, 1, SC); l->r[1] = LOAD(x, SC))
PROGRAM(sb_sc, sb_sc_1, sb_sc_2, NULL, NULL, !l->r[0] && !l->r[1])
PROGRAM(sb_mixed, sb_sc_1, sb_rel_2, NULL, NULL, !l->r[0] && !l->r[1])

/* Message passing: the flag is seen and the data is not. */
THREAD(mp_rlx_1, STORE(x, 1, RLX); STORE(y, 1, RLX))
THREAD(mp_rel_1, STORE(x, 1, RLX); STORE(y, 1, REL))
THREAD(mp_rlx_2, l->r[0] = LOAD(y, RLX); l->r[1] = LOAD(x, RLX))
THREAD(mp_acq_2, l->r[0] = LOAD(y, ACQ); l->r[1] = LOAD(x, RLX))
PROGRAM(mp_rlx, mp_rlx_1, mp_rlx_2, NULL, NULL, l->r[0] && !l->r[1])
PROGRAM(mp_no_release, mp_rlx_1, mp_acq_2, NULL, NULL, l->r[0] && !l->r[1])
PROGRAM(mp_no_acquire, mp_rel_1, mp_rlx_2, NULL, NULL, l->r[0] && !l->r[1])
PROGRAM(mp, mp_rel_1, mp_acq_2, NULL, NULL, l->r[0] && !l->r[1])

/* The same with plain data: the outcome is a race. */
THREAD(race_rel, l->plain = 1; STORE(y, 1, REL))
THREAD(race_rlx, l->plain = 1; STORE(y, 1, RLX))
THREAD(race_late, STORE(y, 1, REL); l->plain = 1)
THREAD(race_acq, if (LOAD(y, ACQ)) l->r[0] = l->plain)
PROGRAM(race_none, race_rel, race_acq, NULL, NULL, false)
PROGRAM(race_relaxed, race_rlx, race_acq, NULL, NULL, false)
PROGRAM(race_after, race_late, race_acq, NULL, NULL, false)

/* A release sequence goes on through a read-modify-write of any order, and ends at
 * another store, since C++20 of the same thread too. (rs_rmw: the addition may come
 * before the release, and then there is a race.) */
THREAD(rs_add, atomic_fetch_add_explicit(&l->y, 1, RLX))
PROGRAM(rs_rmw, race_rel, rs_add, race_acq, NULL, false)
THREAD(rs_again, l->plain = 1; STORE(y, 1, REL); STORE(y, 2, RLX))
PROGRAM(rs_store, rs_again, race_acq, NULL, NULL, false)
THREAD(rs_acq_2, if (LOAD(y, ACQ) == 2) l->r[0] = l->plain)
PROGRAM(rs_rmw_of_2, race_rel, rs_add, rs_acq_2, NULL, false)

/* Coherence: two reads of one location go backwards. */
THREAD(co_1, STORE(x, 1, RLX); STORE(x, 2, RLX))
THREAD(co_2, l->r[0] = LOAD(x, RLX); l->r[1] = LOAD(x, RLX))
PROGRAM(corr, co_1, co_2, NULL, NULL, l->r[0] > l->r[1])
THREAD(co_w1, STORE(x, 1, RLX))
THREAD(co_w2, STORE(x, 2, RLX))
THREAD(co_r2, l->r[2] = LOAD(x, RLX); l->r[3] = LOAD(x, RLX))
PROGRAM(corr2, co_w1, co_w2, co_2, co_r2,
        l->r[0] == 1 && l->r[1] == 2 && l->r[2] == 2 && l->r[3] == 1)

/* Two writers each: both first stores are the last. */
THREAD(ww_1, STORE(x, 1, REL); STORE(y, 2, REL))
THREAD(ww_2, STORE(y, 1, REL); STORE(x, 2, REL))
PROGRAM(ww_rel, ww_1, ww_2, NULL, NULL, LOAD(x, RLX) == 1 && LOAD(y, RLX) == 1)
THREAD(ww_sc_1, STORE(x, 1, SC); STORE(y, 2, SC))
THREAD(ww_sc_2, STORE(y, 1, SC); STORE(x, 2, SC))
PROGRAM(ww_sc, ww_sc_1, ww_sc_2, NULL, NULL, LOAD(x, RLX) == 1 && LOAD(y, RLX) == 1)

/* Independent reads of independent writes: the readers differ about the order. */
THREAD(ir_w1, STORE(x, 1, SC))
THREAD(ir_w2, STORE(y, 1, SC))
THREAD(ir_acq_1, l->r[0] = LOAD(x, ACQ); l->r[1] = LOAD(y, ACQ))
THREAD(ir_acq_2, l->r[2] = LOAD(y, ACQ); l->r[3] = LOAD(x, ACQ))
THREAD(ir_sc_1, l->r[0] = LOAD(x, SC); l->r[1] = LOAD(y, SC))
THREAD(ir_sc_2, l->r[2] = LOAD(y, SC); l->r[3] = LOAD(x, SC))
PROGRAM(iriw_acq, ir_w1, ir_w2, ir_acq_1, ir_acq_2,
        l->r[0] && !l->r[1] && l->r[2] && !l->r[3])
PROGRAM(iriw_sc, ir_w1, ir_w2, ir_sc_1, ir_sc_2,
        l->r[0] && !l->r[1] && l->r[2] && !l->r[3])

/* Two additions, of which one is lost. */
PROGRAM(adds, rs_add, rs_add, NULL, NULL, LOAD(y, RLX) != 2)

/* A relaxed store after a seq_cst one passes it: seq_cst orders seq_cst only. */
THREAD(pass_1, STORE(x, 1, SC); STORE(y, 1, RLX))
THREAD(pass_2, l->r[0] = LOAD(y, RLX); l->r[1] = LOAD(x, SC))
PROGRAM(pass, pass_1, pass_2, NULL, NULL, l->r[0] && !l->r[1])

/* Z6.U of the RC11 paper: seq_cst order against happens-before at one location, which
 * compilation to Power needs and the C11 of 2011 forbade. */
THREAD(z6_1, STORE(x, 1, SC); STORE(y, 1, REL))
THREAD(z6_2, l->r[0] = atomic_fetch_add_explicit(&l->y, 1, SC); l->r[1] = LOAD(y, RLX))
THREAD(z6_3, STORE(y, 3, SC); l->r[2] = LOAD(x, SC))
PROGRAM(z6u, z6_1, z6_2, z6_3, NULL, l->r[0] == 1 && l->r[1] == 3 && !l->r[2])

/* Load buffering needs promises, which the explorer leaves out. */
THREAD(lb_1, l->r[0] = LOAD(x, RLX); STORE(y, 1, RLX))
THREAD(lb_2, l->r[1] = LOAD(y, RLX); STORE(x, 1, RLX))
PROGRAM(lb, lb_1, lb_2, NULL, NULL, l->r[0] && l->r[1])

/* Sleep and wake-up: the word is changed, then all are woken. */
THREAD(fu_1, STORE(x, 1, RLX); explore_futex_wake(&l->x, true))
THREAD(fu_late_1, explore_futex_wake(&l->x, true); STORE(x, 1, RLX))
THREAD(fu_2, while (!LOAD(x, RLX)) explore_futex_wait(&l->x, 0, 0))
PROGRAM(futex, fu_1, fu_2, NULL, NULL, false)
PROGRAM(futex_late, fu_late_1, fu_2, NULL, NULL, false)

/* Spinning ends, whatever is read first. */
THREAD(spin, while (!LOAD(x, ACQ)) explore_retry())
PROGRAM(spins, co_w1, spin, NULL, NULL, false)
PROGRAM(spins_for_ever, NULL, spin, NULL, NULL, false)

#define ROW(program, is_allowed)                                                       \
    {                                                                                  \
        {#program, program, program##_check, 0, EXPLORE_SMALL}, is_allowed             \
    }

const explore_litmus explore_litmuses[] = {
    ROW(sb_rel, true),       ROW(sb_sc, false),        ROW(sb_mixed, true),
    ROW(mp_rlx, true),       ROW(mp_no_release, true), ROW(mp_no_acquire, true),
    ROW(mp, false),          ROW(race_none, false),    ROW(race_relaxed, true),
    ROW(race_after, true),   ROW(rs_rmw, true),        ROW(rs_store, true),
    ROW(rs_rmw_of_2, false), ROW(corr, false),         ROW(corr2, false),
    ROW(ww_rel, true),       ROW(ww_sc, false),        ROW(iriw_acq, true),
    ROW(iriw_sc, false),     ROW(adds, false),         ROW(pass, true),
    ROW(z6u, true),          ROW(lb, false),           ROW(futex, false),
    ROW(futex_late, true),   ROW(spins, false),        ROW(spins_for_ever, true),
};
const size_t explore_litmus_count =
    sizeof explore_litmuses / sizeof explore_litmuses[0];
