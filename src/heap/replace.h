/* SPDX-License-Identifier: Apache-2.0 */
/* What jemalloc does not do as glibc does, of the hot four; the others are exported as they are. */
#ifndef GF_HEAP_REPLACE_H
#define GF_HEAP_REPLACE_H

#include "heap/jemalloc.h"

#include <errno.h>

/* Size 0 with a block frees it and returns NULL, as glibc does: jemalloc's own default too. */
static inline void *gf_replace_realloc(void *block, size_t size)
{
    void *moved = je_realloc(block, size);
    if (gf_unlikely(!moved && size > 0))
        errno = ENOMEM; /* jemalloc's leaves it where there was a block */
    return moved;
}

#endif
