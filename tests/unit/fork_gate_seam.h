/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before fork_gate.c. It lets test_fork_gate.c stop a thread that enters the gate, after
 * the thread has read the gate's state and before it writes that it is inside.
 */
#ifndef GF_TESTS_FORK_GATE_SEAM_H
#define GF_TESTS_FORK_GATE_SEAM_H

#include "base/atomic.h"

void before_store(void);

#undef gf_store_release
#define gf_store_release(p, value)                                                                 \
    (before_store(), atomic_store_explicit((p), (value), memory_order_release))

#endif
