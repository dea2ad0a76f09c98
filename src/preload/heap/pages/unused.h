/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the bytes of free pages that each arena keeps, dirty or lazily freed, and how many of
 * these bytes stayed free. The minimum in a window of time is the number of bytes that the program
 * did not reuse in that window. The functions may be called on any thread, take no lock and keep
 * errno. Concurrent updates may make a minimum inexact, so that pages count as unused too late, or
 * one window too early.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_UNUSED_H
#define GF_PRELOAD_HEAP_PAGES_UNUSED_H

#include "base/atomic.h"
#include "base/base.h"

#define GF_UNUSED_ARENAS 4096 /* jemalloc numbers arenas with 12 bits */

struct gf_unused {
    _Atomic int64_t kept; /* bytes */
    /* Least value of `kept` in the current window, and in the last window. */
    _Atomic int64_t least, before;
};
extern struct gf_unused gf_unused[GF_UNUSED_ARENAS] __attribute__((visibility("hidden")));
/* Number of arenas that have been used so far. */
extern _Atomic unsigned gf_unused_arenas __attribute__((visibility("hidden")));

/* Counts pages that the program freed. */
static inline void gf_unused_freed(unsigned arena, size_t size)
{
    if (gf_unlikely(arena >= gf_load_relaxed(&gf_unused_arenas)))
        gf_store_relaxed(&gf_unused_arenas, arena + 1);
    gf_add_relaxed(&gf_unused[arena].kept, (int64_t)size);
}

/* Counts free pages that jemalloc has turned into a block or a slab. */
static inline void gf_unused_reused(unsigned arena, size_t size)
{
    struct gf_unused *const unused = &gf_unused[arena];
    const int64_t kept = gf_sub_relaxed(&unused->kept, (int64_t)size) - (int64_t)size;

    if (kept < gf_load_relaxed(&unused->least))
        gf_store_relaxed(&unused->least, kept);
}

/* Counts purged pages, which had been free for longest. */
void gf_unused_purged(unsigned arena, size_t size);

/* Ends a window and begins the next one, for all arenas. */
void gf_unused_rotate(void);

/*
 * Returns the bytes of an arena's pages that stayed free in the last window and in the current one.
 */
uint64_t gf_unused_bytes(unsigned arena);

/*
 * gf_unused_total returns the sum of gf_unused_bytes over all arenas, and gf_unused_kept the sum of
 * all kept bytes.
 */
uint64_t gf_unused_total(void);
uint64_t gf_unused_kept(void);

#endif
