/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eventcounts: a thread waits for a condition that other threads make true, without a lock. A
 * waiter reads the count, checks its condition, and sleeps only if the count is unchanged. A
 * notifier makes the condition true, advances the count, and then reads whether there are sleepers.
 * All accesses are sequentially consistent. So the waiter sees the new count, or the notifier sees
 * the sleeper.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_EVENTCOUNT_H
#define GF_ENGINE_TRANSFER_POOL_EVENTCOUNT_H

#include "base/atomic.h"
#include "engine/transfer/pool/futex.h"

struct gf_eventcount {
    _Atomic uint32_t count;
    _Atomic uint32_t sleepers;
};

static inline uint32_t gf_eventcount_read(const struct gf_eventcount *events)
{
    return gf_load_seq_cst(&events->count);
}

static inline void gf_eventcount_advance(struct gf_eventcount *events)
{
    gf_add_seq_cst(&events->count, 1);
}

static inline uint32_t gf_eventcount_sleepers(const struct gf_eventcount *events)
{
    return gf_load_seq_cst(&events->sleepers);
}

/*
 * These two functions are for any number of waiters. A waiter increments the count of sleepers
 * before it sleeps. The thread that wakes waiters subtracts their number.
 */
static inline void gf_eventcount_sleep(struct gf_eventcount *events, uint32_t seen)
{
    gf_add_seq_cst(&events->sleepers, 1);
    if (!gf_futex_wait(&events->count, seen))
        gf_sub_seq_cst(&events->sleepers, 1);
}

static inline void gf_eventcount_wake(struct gf_eventcount *events, unsigned threads)
{
    gf_sub_seq_cst(&events->sleepers, gf_futex_wake(&events->count, threads));
}

/* For a single waiter: sleeps until the count has advanced. */
static inline void gf_eventcount_await(struct gf_eventcount *events, uint32_t seen)
{
    gf_store_seq_cst(&events->sleepers, 1);
    while (gf_eventcount_read(events) == seen)
        gf_futex_wait(&events->count, seen);
    gf_store_relaxed(&events->sleepers, 0);
}

/* Advances the count, and wakes a single waiter. */
static inline void gf_eventcount_notify(struct gf_eventcount *events)
{
    gf_eventcount_advance(events);
    if (gf_eventcount_sleepers(events))
        gf_futex_wake(&events->count, 1);
}

#endif
