/* SPDX-License-Identifier: Apache-2.0 */
/* jemalloc with glibc's semantics. */
#ifndef GF_PRELOAD_HEAP_JEMALLOC_FAMILY_H
#define GF_PRELOAD_HEAP_JEMALLOC_FAMILY_H

#include "preload/heap/family.h"
#include "preload/heap/jemalloc/jemalloc.h"

#include <errno.h>

extern const struct gf_family gf_family_jemalloc;

/*
 * Sets errno on failure, as glibc's realloc does and jemalloc's does not. With a block and size 0,
 * both free the block and return NULL.
 */
static inline void *gf_jemalloc_realloc(void *block, size_t size)
{
    void *moved = je_realloc(block, size);
    if (gf_unlikely(!moved && size > 0))
        errno = ENOMEM;
    return moved;
}

#endif
