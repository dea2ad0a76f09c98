/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/jemalloc_replaced.h"

#include "base/atomic.h"
#include "preload/heap/budget.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/mappings.h"

/*
 * Wraps functions (jemalloc.syms) of jemalloc 5.3.0 for the sets of free extents. Each arena has a
 * dirty set, a lazily freed set, and a set of extents without pages. The wrappers count the bytes
 * of free pages in the first two sets, and can purge a part of them, the oldest first. jemalloc
 * itself can only purge all of them.
 */

/* The eviction ends when fewer bytes than this remain to be purged. */
#define LEAST ((size_t)64 << 10)

GF_WRAPS(void, arena_decay, void *thread, void *arena, bool background, bool all);
void je_ecache_dalloc(void *thread, void *pac, void *hooks, void *set, struct extent *extent);
struct extent *je_extent_split_wrapper(void *thread, void *pac, void *hooks, struct extent *extent,
                                       size_t lead, size_t trail, bool locked);

#define ARENAS 4096 /* jemalloc numbers arenas with 12 bits */

static _Atomic int64_t arena_bytes[ARENAS]; /* free bytes of each arena */
static _Atomic unsigned arena_count;        /* number of arenas that have been used so far */

static void count_bytes(const struct extent *extent, int64_t bytes)
{
    gf_add_relaxed(&arena_bytes[gf_extent_arena(extent)], bytes);
    gf_add_relaxed(&gf_budget.heap, bytes);
}

void gf_evict_freed(const struct extent *extent, size_t size)
{
    const unsigned arena = gf_extent_arena(extent);

    if (gf_unlikely(arena >= gf_load_relaxed(&arena_count)))
        gf_store_relaxed(&arena_count, arena + 1);
    count_bytes(extent, (int64_t)size);
}

/*
 * The offset of the dirty set in an arena's page allocator; 0: not known yet. Each allocation
 * searches the dirty set first, so the process's first call of ecache_alloc shows the offset.
 */
static _Atomic size_t dirty_at;

/* Limits a call of arena_decay by this thread to one set and to `left` bytes. */
struct eviction {
    bool dirty;
    size_t left, taken;
};
static __thread struct eviction *eviction;

static bool is_dirty_set(const void *pac, const void *set)
{
    return (size_t)((const char *)set - (const char *)pac) == gf_load_relaxed(&dirty_at);
}

GF_WRAPPER(struct extent *, ecache_alloc, void *thread, void *pac, void *hooks, void *set,
           struct extent *expand, size_t size, size_t alignment, bool zero, bool guarded)
{
    if (gf_unlikely(!gf_load_relaxed(&dirty_at)))
        gf_store_relaxed(&dirty_at, (size_t)((char *)set - (char *)pac));
    struct extent *extent =
        __real_je_ecache_alloc(thread, pac, hooks, set, expand, size, alignment, zero, guarded);
    if (extent)
        count_bytes(extent, -(int64_t)size);
    return extent;
}

/* jemalloc calls this function to return an extent's pages to the kernel. */
GF_WRAPPER(void, extent_dalloc_wrapper, void *thread, void *pac, void *hooks, struct extent *extent)
{
    count_bytes(extent, -(int64_t)gf_extent_size(extent));
    __real_je_extent_dalloc_wrapper(thread, pac, hooks, extent);
}

/*
 * Returns how many bytes at the start of the extent must be kept, so that at most `most` bytes are
 * purged. jemalloc takes new blocks from the start of an extent, so the program reuses the start
 * first. Large extents are cut at a boundary of huge pages.
 */
static size_t staying(const struct extent *extent, size_t most)
{
    const size_t size = gf_extent_size(extent),
                 unit = most >= GF_HUGE_PAGE ? GF_HUGE_PAGE : GF_JEMALLOC_PAGE;
    const uintptr_t start = (uintptr_t)extent->start & ~((uintptr_t)GF_JEMALLOC_PAGE - 1);
    const uintptr_t cut = (start + size - most + unit - 1) / unit * unit;

    return gf_min((size_t)(cut - start), size);
}

/*
 * jemalloc calls this function to remove the oldest extent of a set, before jemalloc frees that
 * extent lazily or purges it.
 */
GF_WRAPPER(struct extent *, ecache_evict, void *thread, void *pac, void *hooks, void *set,
           size_t pages_min)
{
    struct eviction *const limit = eviction;

    if (gf_unlikely(limit) && (limit->left < LEAST || limit->dirty != is_dirty_set(pac, set)))
        return NULL;
    struct extent *extent = __real_je_ecache_evict(thread, pac, hooks, set, pages_min);
    if (gf_likely(!limit) || !extent)
        return extent;
    const size_t size = gf_extent_size(extent);
    if (size <= limit->left) {
        limit->left -= size;
        limit->taken += size;
        return extent;
    }
    const size_t stays = staying(extent, limit->left);
    struct extent *trail = NULL;
    if (stays < size)
        trail = je_extent_split_wrapper(thread, pac, hooks, extent, stays, size - stays, false);
    je_ecache_dalloc(thread, pac, hooks, set, extent);
    limit->left = 0;
    limit->taken += trail ? size - stays : 0;
    return trail;
}

/* Purges up to `most` bytes of one set of an arena, and returns the number of purged bytes. */
static size_t purge_set(void *arena, bool dirty, size_t most)
{
    struct eviction limit = {.dirty = dirty, .left = most};

    eviction = &limit;
    __real_je_arena_decay(NULL, arena, false, true);
    eviction = NULL;
    return limit.taken;
}

/*
 * Purges lazily freed pages before dirty ones, because they have been free for longer. jemalloc
 * accepts NULL for the thread, which it uses only for statistics and caches.
 */
static size_t purge_arena(unsigned i, size_t most)
{
    /* jemalloc's table has no C11 atomics, so a builtin reads it. */
    void *const arena = __atomic_load_n(&je_arenas[i], __ATOMIC_ACQUIRE);
    const int64_t kept = gf_load_relaxed(&arena_bytes[i]);

    if (!arena || kept <= 0 || eviction)
        return 0;
    const size_t some = gf_max(gf_min((size_t)kept, most), LEAST);
    const size_t lazy = purge_set(arena, false, some);
    return lazy + (lazy < some ? purge_set(arena, true, some - lazy) : 0);
}

uint64_t gf_evict(uint64_t bytes, uint64_t more)
{
    static _Atomic unsigned turn; /* the arena that was purged last comes last */
    const unsigned count = gf_load_relaxed(&arena_count), first = gf_add_relaxed(&turn, 1) + 1;
    uint64_t purged = 0;

    for (unsigned i = 0; i < count && purged < bytes; i++) {
        gf_store_relaxed(&turn, first + i);
        purged += purge_arena((first + i) % count, bytes - purged + more);
    }
    return purged;
}

/*
 * Replaces functions (jemalloc.syms) of jemalloc 5.3.0 that cost time or memory without a benefit
 * here. Each replacement leaves jemalloc in a state that it can also reach by itself. docs/heap.md
 * lists the changes.
 */

#define MIB ((size_t)1 << 20)

/*
 * jemalloc would update each thread's peak usage every 64 KiB. Only mallctl's "thread.peak" reads
 * the peak, and mallctl is not exported.
 */
GF_WRAPPER(uint64_t, peak_alloc_new_event_wait, void *tsd)
{
    (void)tsd;
    return UINT64_MAX;
}

GF_WRAPPER(uint64_t, peak_dalloc_new_event_wait, void *tsd)
{
    (void)tsd;
    return UINT64_MAX;
}

/*
 * To zero used pages, jemalloc purges them, and they fault in again one by one. If the pages are
 * present, writing zeros takes a fraction of that time. Blocks of up to CLEAR_UNSEEN bytes are
 * always zeroed by writing. Blocks of up to CLEAR_MAX bytes (glibc's largest M_MMAP_THRESHOLD) are
 * zeroed by writing if most of their pages are present. Otherwise writing would populate a whole
 * block, of which the caller may use little. CLEAR_UNSEEN and CLEAR_MAX include the page that
 * jemalloc adds to each block.
 */
#define CLEAR_UNSEEN (1 * MIB + GF_JEMALLOC_PAGE)
#define CLEAR_MAX (32 * MIB + GF_JEMALLOC_PAGE)

static bool mostly_present(const char *start, size_t size)
{
    gf_keep_errno();
    return gf_presence_most(start, size);
}

GF_WRAPPER(void, ehooks_default_zero_impl, void *start, size_t size)
{
    if (gf_strict || size <= CLEAR_UNSEEN || (size <= CLEAR_MAX && mostly_present(start, size)))
        memset(start, 0, size);
    else
        __real_je_ehooks_default_zero_impl(start, size);
}

void gf_overrides_zero(void *start, size_t size)
{
    __wrap_je_ehooks_default_zero_impl(start, size);
}

/*
 * Sets how many blocks of a size class each thread may cache. jemalloc calls this once for each
 * class, in ascending order, and uses one number for all large classes. A sleeping thread keeps its
 * cached blocks. So this function lowers the number for larger sizes: one class may cache
 * CACHED_MAX bytes, or a single block that is larger. A user's number is respected.
 */
#define CACHED_MAX ((size_t)256 << 10)
#define LARGE_MIN ((size_t)4 * GF_JEMALLOC_PAGE)

GF_WRAPPER(void, cache_bin_info_init, void *info, uint16_t slots)
{
    static unsigned class;
    const size_t size = je_sz_index2size_tab[class ++];

    if (size >= LARGE_MIN && slots == GF_JEMALLOC_LARGE_SLOTS)
        slots = (uint16_t)gf_min(slots, gf_max(CACHED_MAX / size, 1));
    __real_je_cache_bin_info_init(info, slots);
}
