/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much freed memory the heap keeps: the free pages of jemalloc and the pool of kept mappings
 * together. A process may keep the start budget. It may also keep memory that comes back, as much as
 * the largest rise of live memory after a fall, in the last two windows of 10 seconds. A first climb
 * earns nothing. Live and kept memory together never exceed the highest live memory of these windows
 * by more than the start budget.
 *
 * A process without an engine cannot return memory while it sleeps. It earns only what glibc's malloc
 * would keep: less than twice the largest freed block of up to 32 MiB, if it has not freed more than
 * that. glibc also keeps what is free between live blocks: holes. So the process may also earn the holes among
 * the big blocks (big_pool.h), up to GF_BUDGET_HOLES_MAX. While live memory is less than two start budgets
 * below its peak, it earns up to one of them for other blocks, and at most half of its live memory.
 *
 * The counts are exact. The functions may be called on any thread, take no lock and keep errno.
 * Concurrent updates may make a peak or a rise slightly too small.
 */
#pragma once

#include "base/atomic.h"
#include "base/base.h"

#define GF_BUDGET_WINDOW_NS UINT64_C(10000000000)
/* glibc unmaps larger blocks at once. */
#define GF_BUDGET_MAPPED_MAX ((size_t)32 << 20)
#define GF_BUDGET_HOLES_MAX (INT64_C(60) << 20)

struct gf_budget {
    _Alignas(64) _Atomic int64_t live; /* bytes of pages in blocks and slabs */
    _Atomic int64_t heap, pool;        /* free bytes: in jemalloc, in the pool */
    _Atomic int64_t holes;             /* free bytes in the pool that glibc could not return */
    _Atomic int64_t check_at;          /* more free bytes than this need a check */
    /* The highest live bytes before the last fall, and the lowest since then. */
    _Atomic int64_t top, bottom;
    _Atomic int64_t peak[2], rise[2]; /* of the current window and of the last one */
    _Atomic uint64_t window_ns;       /* when the current window began */
    /* The start budget, and the most that can be earned; 0: as a process without an engine. */
    _Atomic int64_t start, most;
    _Atomic int64_t trim; /* twice the largest freed block, as in glibc; -1: glibc keeps nothing */
    _Atomic uint64_t lazily_freed, purged; /* returned until now: by MADV_FREE, otherwise */
    _Atomic bool unknown;   /* extents of jemalloc have an unexpected layout: sizes are wrong */
    _Atomic bool unmanaged; /* a user's MALLOC_CONF decides about the bytes in `heap` */
};
extern struct gf_budget gf_budget __attribute__((visibility("hidden")));

/* Sets the limits, and forgets what was earned and all peaks. */
void gf_budget_begin(struct gf_budget *budget, uint64_t start, uint64_t most, uint64_t now_ns);

/* Counts bytes that the program got or freed. */
static inline void gf_budget_used(struct gf_budget *budget, size_t size)
{
    const int64_t live = gf_add_relaxed(&budget->live, (int64_t)size) + (int64_t)size;
    const int64_t top = gf_load_relaxed(&budget->top);
    const int64_t rise = gf_min(live, top) - gf_load_relaxed(&budget->bottom);

    if (rise > gf_load_relaxed(&budget->rise[0]))
        gf_store_relaxed(&budget->rise[0], rise);
    if (live > gf_load_relaxed(&budget->peak[0]))
        gf_store_relaxed(&budget->peak[0], live);
    if (live >= top) {
        gf_store_relaxed(&budget->top, live);
        gf_store_relaxed(&budget->bottom, live);
    }
}

static inline void gf_budget_unused(struct gf_budget *budget, size_t size)
{
    const int64_t live = gf_sub_relaxed(&budget->live, (int64_t)size) - (int64_t)size;

    if (live < gf_load_relaxed(&budget->bottom))
        gf_store_relaxed(&budget->bottom, live);
}

/* Counts a freed block that glibc would map on its own. */
static inline void gf_budget_freed_block(struct gf_budget *budget, size_t size)
{
    const int64_t trim = gf_load_relaxed(&budget->trim), twice = 2 * (int64_t)size;

    if (trim >= 0 && twice > trim && size <= GF_BUDGET_MAPPED_MAX)
        gf_store_relaxed(&budget->trim, twice);
}

/* All free bytes, also those that a user's MALLOC_CONF decides about. */
static inline int64_t gf_budget_kept(struct gf_budget *budget)
{
    return gf_load_relaxed(&budget->pool) + gf_load_relaxed(&budget->heap);
}

/* Whether the process has no engine, was not forked, and keeps more than its start budget. */
static inline bool gf_budget_counts_holes(struct gf_budget *budget)
{
    return !gf_load_relaxed(&budget->most) && gf_load_relaxed(&budget->trim) >= 0 &&
           gf_load_relaxed(&budget->pool) > gf_load_relaxed(&budget->start);
}

static inline bool gf_budget_needs_check(struct gf_budget *budget)
{
    return gf_budget_kept(budget) > gf_load_relaxed(&budget->check_at);
}

/* How many free bytes the heap may keep now. */
uint64_t gf_budget_allowed(struct gf_budget *budget, uint64_t now_ns);

/* By how many bytes the heap exceeds that, without those of the user's MALLOC_CONF. */
uint64_t gf_budget_excess(struct gf_budget *budget, uint64_t now_ns);
