/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the calls of each hook, and the bytes that its copies were asked to move. */
#ifndef GF_PRELOAD_HOOK_COUNTERS_H
#define GF_PRELOAD_HOOK_COUNTERS_H

#include "abi/hook_counts.h"
#include "base/atomic.h"
#include "base/base.h"
#include "preload/hook/hook_thread.h"

#include <sys/types.h>

enum gf_hook {
#define GF_CU(symbol) gf_hook_##symbol,
#define GF_LIBC(symbol) gf_hook_##symbol,
#include "abi/hooks.def"
    gf_hook_count,
};

struct gf_counter {
    _Atomic uint64_t calls;
    _Atomic uint64_t more; /* copies of a call beyond its first */
    _Atomic uint64_t bytes, offered, offered_bytes, unfit, unfit_bytes;
};

/*
 * This many live threads each have a set that only they write; all other threads share a few sets.
 * A locked instruction waits until all earlier stores are in the caches. After a copy from the GPU
 * to uncached memory, that wait takes a fiftieth of a small copy's time (bench/NOTES.md). With one
 * set for all threads, each thread would also wait for the others' stores.
 */
#define GF_COUNTER_OWN 64u
#define GF_COUNTER_SHARED 16u

struct gf_counter_set {
    _Alignas(64) struct gf_counter of[gf_hook_count];
};
extern struct gf_counter_set gf_counters[GF_COUNTER_OWN + GF_COUNTER_SHARED];

/*
 * The thread that owns each set, in the form of gf_counter_owner; 0 if the set was never owned. A
 * new thread takes over the set of a thread that has ended. In a forked child any set of the
 * parent's may belong to the thread that forked, so all sets stay taken until gf_counters_in_child.
 * Children that are forked before cuInit never call it.
 */
extern _Atomic uint64_t gf_counter_owners[GF_COUNTER_OWN];

static inline uint64_t gf_counter_owner(pid_t process, pid_t thread)
{
    return (uint64_t)(uint32_t)process << 32 | (uint32_t)thread;
}

/* Gives the calling thread its set, and returns the set's number, from 1. Keeps errno. */
unsigned gf_counters_join(void);
/* In a forked child: frees the sets of the parent's other threads. */
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

/*
 * counter: a counter in the calling thread's set `set`. An addition by a signal handler may be
 * lost.
 */
static inline void gf_count_add(unsigned set, _Atomic uint64_t *counter, uint64_t add)
{
    if (gf_likely(set <= GF_COUNTER_OWN))
        gf_store_relaxed(counter, gf_load_relaxed(counter) + add);
    else
        gf_add_relaxed(counter, add);
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

/* Counts the copies of a call beyond its first. */
static inline void gf_count_more(enum gf_hook hook, uint64_t copies)
{
    const unsigned set = gf_counters_mine();
    gf_count_add(set, &gf_counter_in(set, hook)->more, copies);
}

/* Counts a copy that is large enough for the engine. offered: its shape can be staged. */
static inline void gf_count_large(enum gf_hook hook, uint64_t bytes, bool offered)
{
    const unsigned set = gf_counters_mine();
    struct gf_counter *counter = gf_counter_in(set, hook);
    gf_count_add(set, offered ? &counter->offered : &counter->unfit, 1);
    gf_count_add(set, offered ? &counter->offered_bytes : &counter->unfit_bytes,
                 gf_bytes_counted(bytes));
}

/* gf_preload.each_hook */
void gf_counters_each(gf_hook_counts_fn *fn, void *closure);

#endif
