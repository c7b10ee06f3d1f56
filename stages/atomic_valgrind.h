/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic_valgrind.h - the C11 atomics of gcc, made visible to Valgrind's Helgrind.
 *
 * Helgrind follows locks and knows nothing of atomics: it sees plain accesses of the
 * atomic itself, and nothing that orders the data which it hands over. Here each
 * operation names the edges that its order makes, and only those, so that plain data
 * with no such edge is still reported. The atomics themselves are not looked at.
 *
 * An operation that both reads and writes (fetch_add and the like) takes what was
 * released at the same place before, whatever its order, since it continues the
 * release sequence there.
 */
#ifndef PENSTOCK_STAGES_ATOMIC_VALGRIND_H
#define PENSTOCK_STAGES_ATOMIC_VALGRIND_H

#include <stdatomic.h>
#include <stddef.h>

#include <valgrind/helgrind.h>

static inline void pst__edge_out(const volatile void *atomic, size_t size, int order)
{
    VALGRIND_HG_DISABLE_CHECKING(atomic, size);
    if (order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL ||
        order == __ATOMIC_SEQ_CST)
        ANNOTATE_HAPPENS_BEFORE(atomic);
}

static inline void pst__edge_in(const volatile void *atomic, int order)
{
    if (order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL ||
        order == __ATOMIC_SEQ_CST)
        ANNOTATE_HAPPENS_AFTER(atomic);
}

#undef atomic_load_explicit
#define atomic_load_explicit(pointer, order)                                           \
    __extension__({                                                                    \
        __auto_type from_ = (pointer);                                                 \
        pst__edge_out(from_, sizeof *from_, __ATOMIC_RELAXED);                         \
        __auto_type loaded_ = __atomic_load_n(from_, order);                           \
        pst__edge_in(from_, order);                                                    \
        loaded_;                                                                       \
    })

#undef atomic_store_explicit
#define atomic_store_explicit(pointer, value, order)                                   \
    __extension__({                                                                    \
        __auto_type to_ = (pointer);                                                   \
        pst__edge_out(to_, sizeof *to_, order);                                        \
        __atomic_store_n(to_, value, order);                                           \
    })

#define PST__READ_AND_WRITE(builtin, pointer, value, order)                            \
    __extension__({                                                                    \
        __auto_type at_ = (pointer);                                                   \
        pst__edge_in(at_, __ATOMIC_ACQUIRE);                                           \
        pst__edge_out(at_, sizeof *at_, order);                                        \
        __auto_type value_ = builtin(at_, value, order);                               \
        pst__edge_in(at_, order);                                                      \
        value_;                                                                        \
    })

#undef atomic_exchange_explicit
#define atomic_exchange_explicit(pointer, value, order)                                \
    PST__READ_AND_WRITE(__atomic_exchange_n, pointer, value, order)
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(pointer, value, order)                               \
    PST__READ_AND_WRITE(__atomic_fetch_add, pointer, value, order)
#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(pointer, value, order)                               \
    PST__READ_AND_WRITE(__atomic_fetch_sub, pointer, value, order)
#undef atomic_fetch_or_explicit
#define atomic_fetch_or_explicit(pointer, value, order)                                \
    PST__READ_AND_WRITE(__atomic_fetch_or, pointer, value, order)

#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(pointer, wanted, value, order, failed) \
    __extension__({                                                                    \
        __auto_type at_ = (pointer);                                                   \
        pst__edge_in(at_, __ATOMIC_ACQUIRE);                                           \
        pst__edge_out(at_, sizeof *at_, order);                                        \
        const _Bool done_ =                                                            \
            __atomic_compare_exchange_n(at_, wanted, value, 0, order, failed);         \
        pst__edge_in(at_, done_ ? (order) : (failed));                                 \
        done_;                                                                         \
    })

/* gcc's others are made of those above. */
#undef atomic_fetch_add
#define atomic_fetch_add(pointer, value)                                               \
    atomic_fetch_add_explicit(pointer, value, __ATOMIC_SEQ_CST)
#undef atomic_fetch_sub
#define atomic_fetch_sub(pointer, value)                                               \
    atomic_fetch_sub_explicit(pointer, value, __ATOMIC_SEQ_CST)

#endif
