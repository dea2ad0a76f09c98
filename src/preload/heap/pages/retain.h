/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention of freed pages. Freed pages stay dirty for some seconds, so that the next batch reuses
 * them. After that, the pages are freed lazily (MADV_FREE). Until the kernel reclaims a lazily
 * freed page, reusing it causes no page fault. Free pages are purged (MADV_DONTNEED) if memory is
 * short, in forked children, and if they stay unused (purge_unused.h).
 *
 * The number of dirty bytes is bounded by a share of the headroom. The headroom is read again only
 * after the program has freed as many bytes as the bound. So in a loop over batches, most
 * iterations neither read the headroom nor free pages lazily.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_RETAIN_H
#define GF_PRELOAD_HEAP_PAGES_RETAIN_H

#include "abi/heap_api.h"
#include "base/atomic.h"
#include "config/options.h"

/* Used only by gf_retain_freed. */
struct gf_retain_count {
    _Alignas(64) _Atomic uint64_t freed; /* bytes freed since dirty pages were last freed lazily */
    _Atomic uint64_t check_at;           /* value of `freed` at which a check is due */
};
extern struct gf_retain_count gf_retain_count __attribute__((visibility("hidden")));

GF_COLD void gf_retain_check(void);

/* Counts freed bytes. The caller holds no lock of jemalloc. Keeps errno. */
static inline void gf_retain_freed(size_t size)
{
    const uint64_t freed = gf_add_relaxed(&gf_retain_count.freed, size) + size;
    if (gf_unlikely(freed >= gf_load_relaxed(&gf_retain_count.check_at)))
        gf_retain_check();
}

/*
 * Whether jemalloc may now purge all free pages of an arena. By default jemalloc purges an arena
 * when the arena's last thread ends. So programs with short-lived threads would have all page
 * faults again.
 */
bool gf_retain_allows_purge(void);

/* Purges all free pages. malloc_trim calls it too. */
void gf_retain_purge(void);

/*
 * Called after a new mapping was made. Makes the next check come earlier. The caller may hold locks
 * of jemalloc.
 */
void gf_retain_grown(void);

/* managed: the library, not a user's MALLOC_CONF, sets the decay times. */
void gf_retain_init(enum gf_profile profile, bool managed);

/*
 * Called in a forked child, after jemalloc's locks were initialised. Purges free pages that the
 * child shares with the parent. While they are shared, the parent's first write to each such page
 * makes the kernel copy the page. may_lock: false if this thread may hold a lock of jemalloc. Then
 * nothing is purged.
 */
void gf_retain_in_child(bool may_lock);

/* Pure function: returns the bound on dirty bytes. watched: an engine checks regularly. */
uint64_t gf_retain_bound(uint64_t headroom, enum gf_profile profile, bool watched);

/*
 * A try-lock, with which only one thread at a time checks, frees lazily or purges. gf_retain_begin
 * returns false if another thread holds the lock. A forked child resets it.
 */
bool gf_retain_begin(void);
void gf_retain_end(void);

/*
 * gf_retain_managed: whether the library sets the decay times. gf_retain_watched: whether the
 * engine checks regularly.
 */
bool gf_retain_managed(void);
bool gf_retain_watched(void);

/* These are the members retained, watch_retained, tell_headroom, free_lazily and purge of gf_heap_ops. */
void gf_retain_read(struct gf_heap_retained *ret);
void gf_retain_watch(void (*wake)(void));
void gf_retain_tell_headroom(uint64_t bytes);
bool gf_retain_free_lazily(void);
bool gf_retain_purge_now(void);

#endif
