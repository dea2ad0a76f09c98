/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps free memory within the budget (budget.h). Free pages of jemalloc are purged, and kept
 * mappings are unmapped, the oldest of each first. If the program has just freed one kind of memory,
 * the other kind goes first.
 */
#pragma once

#include "abi/heap_api.h"
#include "preload/heap/budget.h"

enum gf_reclaim_kind { gf_reclaim_pages, gf_reclaim_mappings };

GF_COLD void gf_reclaim_now(enum gf_reclaim_kind newest);

/* Called after a change of the counts. The caller holds no lock of jemalloc. Keeps errno. */
static inline void gf_reclaim_check(enum gf_reclaim_kind newest)
{
    if (gf_unlikely(gf_budget_needs_check(&gf_budget)))
        gf_reclaim_now(newest);
}

/*
 * Returns all free memory to the kernel, and returns true if there was some. Called for malloc_trim,
 * and when a mapping failed. Keeps errno.
 */
bool gf_reclaim_all(void);
/*
 * The same for a call of the program that is no call of malloc. Returns false, too, if the memory is in
 * use, or if another allocator serves malloc.
 */
bool gf_reclaim_for_call(void);

/* Called once, before jemalloc starts. Returns the lower one of RLIMIT_AS and RLIMIT_DATA. */
uint64_t gf_reclaim_read_limits(void);

/*
 * Called once, after jemalloc has started. managed: no MALLOC_CONF of a user sets the decay times.
 * engines_child: a process with an engine started this one, so it has the budget of a forked child.
 */
void gf_reclaim_init(bool managed, bool engines_child);
bool gf_reclaim_managed(void);

/*
 * Called with a soft limit when it changes: RLIMIT_AS or RLIMIT_DATA. The kernel counts free memory,
 * too. So while there is such a limit, the heap keeps nothing, and unmaps what it purges. Other limits
 * are ignored, and so are all if another allocator serves malloc. Keeps errno.
 */
void gf_reclaim_limit(int resource, uint64_t soft);
bool gf_reclaim_is_limited(void);

/*
 * Called in a forked child, once it can take jemalloc's locks. Purges free memory that the
 * child shares with the parent. While it is shared, the parent's first write to each page makes the
 * kernel copy the page. If this thread may hold a lock (gf_locks), nothing is purged.
 */
void gf_reclaim_in_child(void);

/* These are the members retained, watch_retained, purge and purge_unused of gf_heap_ops. */
void gf_reclaim_read(struct gf_heap_retained *ret);
void gf_reclaim_watch(void (*wake)(void), uint64_t headroom);
void gf_reclaim_purge(void);
void gf_reclaim_unused(void);
