/* SPDX-License-Identifier: Apache-2.0 */
/* C11 atomics with the order in the name; a property found at first use. */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

/*
 * Short names for C11 atomics, with the memory order in the name. The arguments are those of the
 * standard macros: `p` points to an _Atomic object.
 *
 * For words that several processes map, use the __atomic_* builtins, because the C standard does
 * not cover such memory.
 */

#define gf_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define gf_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define gf_load_seq_cst(p) atomic_load_explicit((p), memory_order_seq_cst)
#define gf_store_relaxed(p, value) atomic_store_explicit((p), (value), memory_order_relaxed)
#define gf_store_release(p, value) atomic_store_explicit((p), (value), memory_order_release)
#define gf_store_seq_cst(p, value) atomic_store_explicit((p), (value), memory_order_seq_cst)

/* ThreadSanitizer does not support fences, and gcc warns about each fence. */
#if defined(__SANITIZE_THREAD__)
#define gf_fence_seq_cst() atomic_signal_fence(memory_order_seq_cst)
#else
#define gf_fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
#endif

/* The gf_add macros return the value that *p had before the addition. */
#define gf_add_relaxed(p, n) atomic_fetch_add_explicit((p), (n), memory_order_relaxed)
#define gf_add_release(p, n) atomic_fetch_add_explicit((p), (n), memory_order_release)
#define gf_add_acq_rel(p, n) atomic_fetch_add_explicit((p), (n), memory_order_acq_rel)
#define gf_add_seq_cst(p, n) atomic_fetch_add_explicit((p), (n), memory_order_seq_cst)
#define gf_sub_relaxed(p, n) atomic_fetch_sub_explicit((p), (n), memory_order_relaxed)
#define gf_sub_acq_rel(p, n) atomic_fetch_sub_explicit((p), (n), memory_order_acq_rel)
#define gf_sub_seq_cst(p, n) atomic_fetch_sub_explicit((p), (n), memory_order_seq_cst)
#define gf_exchange_relaxed(p, value) atomic_exchange_explicit((p), (value), memory_order_relaxed)
#define gf_exchange_acquire(p, value) atomic_exchange_explicit((p), (value), memory_order_acquire)
#define gf_exchange_acq_rel(p, value) atomic_exchange_explicit((p), (value), memory_order_acq_rel)
#define gf_exchange_seq_cst(p, value) atomic_exchange_explicit((p), (value), memory_order_seq_cst)

/* If *p equals *expected, stores `value` and returns true. Otherwise copies *p to *expected. */
#define gf_cas_relaxed(p, expected, value)                                                         \
    atomic_compare_exchange_strong_explicit((p), (expected), (value), memory_order_relaxed,        \
                                            memory_order_relaxed)
#define gf_cas_acquire(p, expected, value)                                                         \
    atomic_compare_exchange_strong_explicit((p), (expected), (value), memory_order_acquire,        \
                                            memory_order_relaxed)
#define gf_cas_acq_rel(p, expected, value)                                                         \
    atomic_compare_exchange_strong_explicit((p), (expected), (value), memory_order_acq_rel,        \
                                            memory_order_acquire)
#define gf_cas_seq_cst(p, expected, value)                                                         \
    atomic_compare_exchange_strong_explicit((p), (expected), (value), memory_order_seq_cst,        \
                                            memory_order_seq_cst)
/* Like gf_cas_relaxed, but it may fail although *p equals *expected. So call it in a loop. */
#define gf_cas_weak_relaxed(p, expected, value)                                                    \
    atomic_compare_exchange_weak_explicit((p), (expected), (value), memory_order_relaxed,          \
                                          memory_order_relaxed)

/*
 * Determines a property of the processor or the kernel at first use, and stores the result. Several
 * threads may determine the same property at the same time; all get the same result.
 */

enum gf_probed { gf_probed_unknown, gf_probed_no, gf_probed_yes };

/*
 * Whether this machine has a property. `known` is a static variable that is initially 0, and holds
 * the result. If find_out returns gf_probed_unknown, the result is false, and the next call of
 * gf_probe calls find_out again.
 */
static inline bool gf_probe(_Atomic unsigned char *known, enum gf_probed (*find_out)(void))
{
    unsigned char answer = gf_load_relaxed(known);
    if (gf_unlikely(answer == gf_probed_unknown)) {
        answer = (unsigned char)find_out();
        gf_store_relaxed(known, answer);
    }
    return answer == gf_probed_yes;
}

static inline enum gf_probed gf_probed_as(bool answer)
{
    return answer ? gf_probed_yes : gf_probed_no;
}
