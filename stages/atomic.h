/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - the one door through which this library gets C11 atomics.
 *
 * tests/stages/explore/ replaces this file, to try every interleaving and every weaker
 * order; a build for Valgrind (-DPST_VALGRIND, tests/valgrind.sh) replaces what the
 * operations are. Each use elsewhere names its order, the access it pairs with and the
 * reason. There are no stand-alone fences: ThreadSanitizer cannot see them.
 */
#ifndef PENSTOCK_STAGES_ATOMIC_H
#define PENSTOCK_STAGES_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

#ifdef PST_VALGRIND
#include "stages/atomic_valgrind.h"
#endif

/* Data that different threads write stands this far apart. */
#define PST__CACHE_LINE 64

typedef _Atomic uint32_t pst_atomic_u32;
typedef _Atomic uint64_t pst_atomic_u64;

#endif
