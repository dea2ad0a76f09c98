/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before fork_gate.c. It lets test_fork_gate.c stop a thread that enters the gate, after
 * the thread has read the gate's state and before it writes that it is inside. It also reports the
 * words in which threads without a slot count themselves.
 */
#ifndef GF_TESTS_FORK_GATE_SEAM_H
#define GF_TESTS_FORK_GATE_SEAM_H

#include "base/atomic.h"

void before_store(void);

#undef gf_store_release
#define gf_store_release(p, value)                                                                 \
    (before_store(), atomic_store_explicit((p), (value), memory_order_release))

void before_shared_add(const void *word);

#undef gf_add_seq_cst
#define gf_add_seq_cst(p, n)                                                                       \
    (before_shared_add(p), atomic_fetch_add_explicit((p), (n), memory_order_seq_cst))

#endif
