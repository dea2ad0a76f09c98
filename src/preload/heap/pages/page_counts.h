/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of the heap's pages, in bytes. The code in heap/callouts updates them. Page retention, the
 * first-touch estimate and the report read them. The functions may be called on any thread, take no
 * lock and keep errno.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PAGE_COUNTS_H
#define GF_PRELOAD_HEAP_PAGES_PAGE_COUNTS_H

#include "base/atomic.h"
#include "base/base.h"

/* Blocks from this size on count as large. */
#define GF_PAGE_COUNTS_LARGE ((size_t)8 << 20)

struct gf_page_counts {
    _Atomic uint64_t large;        /* bytes in large blocks */
    _Atomic uint64_t large_most;   /* the maximum of `large` */
    _Atomic uint64_t lazily_freed; /* bytes freed by MADV_FREE until now */
    _Atomic uint64_t purged;       /* bytes freed by MADV_DONTNEED or munmap until now */
    /* The part of `purged` that was purged because the pages stayed unused. */
    _Atomic uint64_t unused_purged;
    _Atomic bool unknown; /* true: extents have an unexpected layout, so their sizes are wrong */
};
extern struct gf_page_counts gf_page_counts __attribute__((visibility("hidden")));

/*
 * Records that a block of `before` bytes now has `after` bytes. 0 bytes: there was or is no block.
 */
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

/*
 * Returns by how many bytes `large` is below its maximum. The program is likely to allocate as many
 * bytes in large blocks again, from free pages.
 */
uint64_t gf_page_counts_missing(void);

/*
 * Resets the maximum to the current value. After that, no free pages are reserved for large blocks.
 */
void gf_page_counts_forget_most(void);

#endif
