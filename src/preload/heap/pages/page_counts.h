/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of the heap's pages, in bytes. jemalloc's call-outs (heap/callouts) update them; page
 * retention, the first-touch estimate and the report read them. Any thread; takes no lock and keeps
 * errno.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PAGE_COUNTS_H
#define GF_PRELOAD_HEAP_PAGES_PAGE_COUNTS_H

#include "base/atomic.h"
#include "base/base.h"

/* Blocks from this size on count as large. */
#define GF_PAGE_COUNTS_LARGE ((size_t)8 << 20)

struct gf_page_counts {
    _Atomic uint64_t active;        /* in slabs and blocks */
    _Atomic uint64_t large;         /* in large blocks */
    _Atomic uint64_t large_most;    /* the most that `large` has been */
    _Atomic uint64_t lazily_freed;  /* freed by MADV_FREE so far */
    _Atomic uint64_t purged;        /* freed by MADV_DONTNEED or munmap so far */
    _Atomic uint64_t unused_purged; /* the part of `purged` that was not reused (purge_unused.h) */
    _Atomic bool unknown;           /* extent sizes cannot be read, so `active` is wrong */
};
extern struct gf_page_counts gf_page_counts __attribute__((visibility("hidden")));

/* A block of `before` bytes has `after` bytes now; 0 stands for no block. */
static inline void gf_page_counts_large(size_t before, size_t after)
{
    const uint64_t was = before >= GF_PAGE_COUNTS_LARGE ? before : 0;
    const uint64_t is = after >= GF_PAGE_COUNTS_LARGE ? after : 0;

    if (gf_likely(was == is))
        return;
    const uint64_t now = gf_add_relaxed(&gf_page_counts.large, is - was) + (is - was);
    if (is > was && now > gf_load_relaxed(&gf_page_counts.large_most))
        gf_store_relaxed(&gf_page_counts.large_most, now);
}

/* Returns 0 if extent sizes cannot be read. */
static inline uint64_t gf_page_counts_active(void)
{
    return gf_load_relaxed(&gf_page_counts.unknown) ? 0 : gf_load_relaxed(&gf_page_counts.active);
}

/*
 * The bytes by which large blocks are below their maximum: free pages that the program may reuse.
 */
uint64_t gf_page_counts_missing(void);

/* Resets the maximum to the current value, so that no free pages are kept for large blocks. */
void gf_page_counts_forget_most(void);

#endif
