/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of the heap's pages, in bytes. The code in heap/callouts updates them. The first-touch
 * estimate and the report read them.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PAGE_COUNTS_H
#define GF_PRELOAD_HEAP_PAGES_PAGE_COUNTS_H

#include "base/atomic.h"
#include "base/base.h"

struct gf_page_counts {
    _Atomic uint64_t lazily_freed; /* bytes freed by MADV_FREE until now */
    _Atomic uint64_t purged;       /* bytes freed by MADV_DONTNEED or munmap until now */
    _Atomic bool unknown; /* true: extents have an unexpected layout, so their sizes are wrong */
};
extern struct gf_page_counts gf_page_counts __attribute__((visibility("hidden")));

#endif
