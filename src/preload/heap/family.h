/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/heap_api.h"
#include "base/base.h"
#include "preload/heap/big.h"
#include "preload/heap/jemalloc.h"

#include <malloc.h>
#include <stdio.h>

/* The malloc family as a table of functions: one table for each allocator that can serve it. */

struct gf_family {
#define GF_FAMILY(name, type, parameters, arguments) type(*name) parameters;
#include "abi/family.def"
};

/* glibc's second names for some of these functions. */
struct gf_libc_family {
#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments) type(*alias) parameters;
#include "abi/family.def"
};

/*
 * glibc's functions that report on the heap and tune it, based on jemalloc's statistics. The
 * functions keep errno. The numbers that they report are 0 if jemalloc was built without
 * statistics.
 */

#define GF_FAMILY_INFO(name, type, parameters, arguments) type gf_info_##name parameters;
#include "abi/family.def"

/* gf_heap_ops.stats */
void gf_info_heap(struct gf_heap_stats *ret);

/* The malloc family of jemalloc, with glibc's semantics. */

extern const struct gf_family gf_family_jemalloc;

/*
 * Sets errno on failure. glibc's realloc does so, but jemalloc's does not. With a block and size 0,
 * realloc frees the block and returns NULL in both allocators; that is no failure.
 */
static inline void *gf_jemalloc_realloc(void *block, size_t size)
{
    void *moved = gf_big_may_own(block) || gf_unlikely(size >= GF_BIG_MIN)
                      ? gf_big_realloc(block, size)
                      : je_realloc(block, size);
    if (gf_unlikely(!moved && size > 0))
        errno = ENOMEM;
    return moved;
}

/* The following two serve blocks of jemalloc and of the store of big blocks. */
static inline void gf_jemalloc_free(void *block)
{
    if (gf_big_may_own(block))
        gf_big_free(block);
    else
        je_free(block);
}

static inline size_t gf_jemalloc_usable_size(void *block)
{
    return gf_big_may_own(block) ? gf_big_usable_size(block) : je_malloc_usable_size(block);
}
