/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's extent, a run of free or used pages, with the layout of jemalloc 5.3.0. To verify the
 * layout, extents.c compares the size in each new extent with the requested size.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_EXTENT_H
#define GF_PRELOAD_HEAP_CALLOUTS_EXTENT_H

#include "base/base.h"

struct extent {
    uint64_t bits; /* bits 0 to 11: the arena's number */
    void *start;
    size_t size_and_serial;
};

static inline size_t gf_extent_size(const struct extent *extent)
{
    return extent->size_and_serial & ~((size_t)GF_JEMALLOC_PAGE - 1);
}

static inline unsigned gf_extent_arena(const struct extent *extent)
{
    return extent->bits & 0xfff;
}

#endif
