/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that is held for a few instructions, and never during a system call, except by a fork.
 * Threads that wait for it sleep. If a real-time thread called sched_yield in a loop instead, it
 * could keep the holder off the CPU. A holder takes no other lock. The functions keep errno.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_LOCK_H
#define GF_PRELOAD_HEAP_PAGES_LOCK_H

#include "base/atomic.h"
#include "base/base.h"

struct gf_lock {
    _Atomic unsigned state;
};

void gf_lock_take(struct gf_lock *lock);
void gf_lock_give(struct gf_lock *lock);

#endif
