/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * jemalloc's extent, a run of free or used pages, with the layout of jemalloc 5.3.0. To verify the
 * layout, jemalloc_wraps.c compares the size in each new extent with the requested size.
 */

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

/* Declares a function of jemalloc that is wrapped (jemalloc.syms), and its wrapper. */
#define GF_WRAPS(type, name, ...)                                                                  \
    type __real_je_##name(__VA_ARGS__);                                                            \
    type __wrap_je_##name(__VA_ARGS__)
/* The same, and begins the definition of the wrapper. */
#define GF_WRAPPER(type, name, ...)                                                                \
    GF_WRAPS(type, name, __VA_ARGS__);                                                             \
    type __wrap_je_##name(__VA_ARGS__)

/* Counts jemalloc's free pages, and purges a part of them. */

/* Counts pages that the program freed. The caller then passes the extent to jemalloc. */
void gf_evict_freed(const struct extent *extent, size_t size);

/*
 * Purges about `bytes` of free pages, the oldest of each arena, one arena after the other, and up to
 * `more` of the last of these arenas. Skips arenas that another thread purges. Returns the number of
 * purged bytes. The caller holds no lock of jemalloc. May change errno.
 */
uint64_t gf_evict(uint64_t bytes, uint64_t more);

/*
 * Zeroes used pages by writing, if they are few or most of them are present. Otherwise purges them.
 * May change errno.
 */
void gf_overrides_zero(void *start, size_t size);
