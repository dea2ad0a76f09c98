/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family of jemalloc, with glibc's semantics. */
#ifndef GF_PRELOAD_HEAP_JEMALLOC_FAMILY_H
#define GF_PRELOAD_HEAP_JEMALLOC_FAMILY_H

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
    void *moved = je_realloc(block, size);
    if (gf_unlikely(!moved && size > 0))
        errno = ENOMEM;
    return moved;
}

#endif
