/* SPDX-License-Identifier: Apache-2.0 */
/* How often each hook was called, and how much its copies were to move. */
#ifndef GF_HOOK_COUNTERS_H
#define GF_HOOK_COUNTERS_H

#include "base/base.h"
#include "hook/thread.h"
#include "observe/tally.h"

enum gf_hook {
#define GF_CU(symbol) gf_hook_##symbol,
#define GF_LIBC(symbol) gf_hook_##symbol,
#include "hook/hooks.def"
    gf_hook_count,
};

struct gf_counter {
    uint64_t calls;
    uint64_t more; /* copies beyond one a call */
    uint64_t bytes, offered, offered_bytes, unfit, unfit_bytes;
};

/*
 * A set for each of so many threads that live, which alone writes to it, and some for all others together. Adding by a
 * locked instruction first waits until all that was stored before is in the caches: behind a copy from the GPU, to memory
 * that no cache has, that is a fiftieth of a small one. If there were one for all others, they would wait for each other's.
 */
#define GF_COUNTER_OWN 64u
#define GF_COUNTER_SHARED 16u

struct gf_counter_set {
    _Alignas(64) struct gf_counter of[gf_hook_count];
};
extern struct gf_counter_set gf_counters[GF_COUNTER_OWN + GF_COUNTER_SHARED];

/* Gives the calling thread its set; its number, from 1. Keeps errno. */
unsigned gf_counters_join(void);
/* In a forked child, where the parent's other threads' sets are free. */
void gf_counters_in_child(void);

static inline unsigned gf_counters_mine(void)
{
    const unsigned set = gf_thread.counters;
    return gf_likely(set) ? set : gf_counters_join();
}

static inline struct gf_counter *gf_counter_in(unsigned set, enum gf_hook hook)
{
    return &gf_counters[set - 1].of[hook];
}

/* counter: in that set, the calling thread's. What a signal handler adds in the midst of it may be lost. */
static inline void gf_count_add(unsigned set, uint64_t *counter, uint64_t add)
{
    if (gf_likely(set <= GF_COUNTER_OWN))
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + add, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(counter, add, __ATOMIC_RELAXED);
}

static inline void gf_count(enum gf_hook hook)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->calls, 1);
}

static inline void gf_count_bytes(enum gf_hook hook, uint64_t bytes)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->bytes, gf_bytes_counted(bytes));
}

/* Copies of a call beyond the first. */
static inline void gf_count_more(enum gf_hook hook, uint64_t copies)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->more, copies);
}

/* A copy that is large enough. */
static inline void gf_count_large(enum gf_hook hook, uint64_t bytes, bool offered)
{
    const unsigned set = gf_counters_mine();
    struct gf_counter *counter = gf_counter_in(set, hook);
    gf_count_add(set, offered ? &counter->offered : &counter->unfit, 1);
    gf_count_add(set, offered ? &counter->offered_bytes : &counter->unfit_bytes, gf_bytes_counted(bytes));
}

/* gf_door.each_hook */
void gf_counters_each(gf_tally_see *see, void *closure);

#endif
