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

/* A cache line each: threads that allocate do not disturb threads that do something else... */
struct gf_counter {
    _Alignas(64) uint64_t calls;
    uint64_t more; /* copies beyond one a call */
    uint64_t bytes, offered, offered_bytes, unfit, unfit_bytes;
};

/* ...and a set for each of so many threads: a line that several write costs a small copy a tenth. */
#define GF_COUNTER_SETS 16
extern struct gf_counter gf_counters[GF_COUNTER_SETS][gf_hook_count];

/* Gives the calling thread its set; its number, from 1. */
unsigned gf_counters_join(void);

static inline struct gf_counter *gf_counter_of(enum gf_hook hook)
{
    unsigned set = gf_thread.counters;
    if (gf_unlikely(!set))
        set = gf_counters_join();
    return &gf_counters[set - 1][hook];
}

static inline void gf_count_add(uint64_t *counter, uint64_t add)
{
    __atomic_fetch_add(counter, add, __ATOMIC_RELAXED);
}

static inline void gf_count(enum gf_hook hook)
{
    gf_count_add(&gf_counter_of(hook)->calls, 1);
}

static inline void gf_count_bytes(enum gf_hook hook, uint64_t bytes)
{
    gf_count_add(&gf_counter_of(hook)->bytes, gf_bytes_counted(bytes));
}

/* A copy that is large enough. */
static inline void gf_count_large(enum gf_hook hook, uint64_t bytes, bool offered)
{
    struct gf_counter *counter = gf_counter_of(hook);
    gf_count_add(offered ? &counter->offered : &counter->unfit, 1);
    gf_count_add(offered ? &counter->offered_bytes : &counter->unfit_bytes,
                 gf_bytes_counted(bytes));
}

/* gf_door.each_hook */
void gf_counters_each(gf_tally_see *see, void *closure);

#endif
