/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family of jemalloc, with glibc's semantics. */
#ifndef GF_PRELOAD_HEAP_JEMALLOC_FAMILY_H
#define GF_PRELOAD_HEAP_JEMALLOC_FAMILY_H

#include "preload/heap/callouts/big.h"
#include "preload/heap/family.h"
#include "preload/heap/jemalloc/jemalloc.h"

#include <errno.h>

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

#endif
