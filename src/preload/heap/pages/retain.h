/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention of freed pages. Freed pages stay dirty for some seconds, so that the next batch reuses
 * them. Then they are freed lazily (MADV_FREE): they stay present, and reuse costs no page fault
 * until the kernel reclaims them. They are purged (MADV_DONTNEED) only if memory is short, and in
 * forked children.
 *
 * The bound on dirty bytes is a share of the headroom, the memory left before a limit. The headroom
 * is read again each time that a bound's worth of bytes has been freed. So a loop that fills and
 * frees a batch needs one reading and one MADV_FREE per many rounds.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_RETAIN_H
#define GF_PRELOAD_HEAP_PAGES_RETAIN_H

#include "abi/heap_api.h"
#include "base/atomic.h"
#include "config/options.h"

/* Used only by gf_retain_freed. */
struct gf_retain_count {
    _Alignas(64) _Atomic uint64_t freed; /* bytes freed since dirty pages were last freed lazily */
    _Atomic uint64_t check_at;           /* a check is due once `freed` reaches this */
};
extern struct gf_retain_count gf_retain_count __attribute__((visibility("hidden")));

GF_COLD void gf_retain_check(void);

/*
 * Counts bytes that returned to jemalloc's page caches. No lock of jemalloc is held; keeps errno.
 */
static inline void gf_retain_freed(size_t size)
{
    const uint64_t freed = gf_add_relaxed(&gf_retain_count.freed, size) + size;
    if (gf_unlikely(freed >= gf_load_relaxed(&gf_retain_count.check_at)))
        gf_retain_check();
}

/*
 * Whether jemalloc may now purge all pages that an arena retains. By default it does so when an
 * arena's last thread ends. A program with short-lived threads would then pay every page fault
 * again.
 */
bool gf_retain_allows_purge(void);

/* Purges all free pages. malloc_trim uses this too. */
void gf_retain_purge(void);

/* Called when new memory was mapped: schedules an early check. jemalloc's locks may be held. */
void gf_retain_grown(void);

/*
 * Called once, after jemalloc has started, so that our handler in forked children runs after
 * jemalloc's. managed: the library sets the decay times, not a user's MALLOC_CONF.
 */
void gf_retain_init(enum gf_profile profile, bool managed);

/*
 * Pure function: how many bytes may be dirty. watched: the engine checks often and frees in time.
 */
uint64_t gf_retain_bound(uint64_t headroom, enum gf_profile profile, bool watched);

/*
 * One thread at a time checks, frees or purges what is kept. False: another thread does. A forked
 * child starts with none.
 */
bool gf_retain_begin(void);
void gf_retain_end(void);

/* Whether the library sets the decay times, and whether the engine checks regularly. */
bool gf_retain_managed(void);
bool gf_retain_watched(void);

/* gf_heap_ops: retained, watch_retained, free_lazily, purge */
void gf_retain_read(struct gf_heap_retained *ret);
void gf_retain_watch(void (*wake)(void));
bool gf_retain_free_lazily(void);
bool gf_retain_purge_now(void);

#endif
