/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/atomic.h"

#include <sched.h>

/*
 * Takes a lock that each holder keeps for some copies of memory at most. Returns false if it is not
 * free in 1000 tries: its holder may be a thread that a signal handler has interrupted, or that a
 * fork has left behind. The holder unlocks it by gf_store_release(locked, false).
 */
static inline bool gf_brief_lock(_Atomic bool *locked)
{
    for (unsigned i = 0; i < 1000; i++) {
        if (!gf_exchange_acquire(locked, true))
            return true;
        sched_yield();
    }
    return false;
}
