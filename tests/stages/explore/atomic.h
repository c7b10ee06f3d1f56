/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - stands in for stages/atomic.h where shipped files are explored.
 *
 * Every use of an atomic becomes a call of the explorer. A use is a site: it is listed
 * by the linker whether it ever runs or not, and its orders can be weakened.
 */
#ifndef PENSTOCK_STAGES_ATOMIC_H
#define PENSTOCK_STAGES_ATOMIC_H  /* the shipped one's guard: it is not included then  \
                                   */

#include <stdatomic.h>
#include <stdint.h>

#include "tests/stages/explore/explore.h"

#define PST__CACHE_LINE 64

typedef uint32_t pst_atomic_u32;
typedef uint64_t pst_atomic_u64;

/* Pointers, since the linker may leave gaps between larger things of a section. */
#define EXPLORE_SITE(object_text, operation_text, first, second)                       \
    ({                                                                                 \
        static explore_site site_ = {.file = __FILE__,                                 \
                                     .line = __LINE__,                                 \
                                     .function = __func__,                             \
                                     .object = (object_text),                          \
                                     .operation = (operation_text),                    \
                                     .shipped = {(first), (second)},                   \
                                     .order = {(first), (second)}};                    \
        static explore_site *const listed_                                             \
            __attribute__((section("explore_sites"), used)) = &site_;                  \
        listed_;                                                                       \
    })

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_compare_exchange_strong_explicit

#define atomic_load_explicit(object, o)                                                \
    _Generic(*(object), uint64_t                                                       \
             : explore_load_shown, uint32_t                                            \
             : explore_load)((object), EXPLORE_SITE(#object, "load", (o), (o)))
#define atomic_store_explicit(object, value, o)                                        \
    _Generic(*(object), uint64_t                                                       \
             : explore_store_shown, uint32_t                                           \
             : explore_store)((object), (value),                                       \
                              EXPLORE_SITE(#object, "store", (o), (o)))
#define atomic_exchange_explicit(object, value, o)                                     \
    explore_exchange((object), (value), EXPLORE_SITE(#object, "exchange", (o), (o)))
#define atomic_fetch_add_explicit(object, value, o)                                    \
    explore_add((object), (value), EXPLORE_SITE(#object, "add", (o), (o)))
#define atomic_fetch_sub_explicit(object, value, o)                                    \
    explore_add((object), -(uint32_t)(value), EXPLORE_SITE(#object, "sub", (o), (o)))
#define atomic_fetch_or_explicit(object, value, o)                                     \
    explore_or((object), (value), EXPLORE_SITE(#object, "or", (o), (o)))
#define atomic_compare_exchange_strong_explicit(object, expected, value, o, failed)    \
    explore_compare_exchange((object), (expected), (value),                            \
                             EXPLORE_SITE(#object, "compare", (o), (failed)))

#endif
