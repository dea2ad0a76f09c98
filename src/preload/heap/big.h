/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of big blocks: each has a mapping of its own, which starts at a boundary of huge pages.
 * A freed mapping goes to the pool (big_pool.h). realloc grows a block in place or moves its pages, as
 * in glibc, so it copies nothing and never needs both blocks. jemalloc serves a big block if the
 * store is off, has LIVE_MAX blocks, or cannot map one.
 *
 * A table (big_table.h) tells which blocks belong to the store. free asks it only for addresses at such
 * a boundary, which other blocks rarely have.
 *
 * Unless a comment says otherwise, the functions change errno only as malloc and realloc may.
 */
#pragma once

#include "preload/heap/big_pool.h"
#include "preload/heap/jemalloc.h"

/*
 * Called once, after jemalloc has started. on: false with MALLOC_CONF=prof:true, and with junk or zero:
 * jemalloc fills the size class of each block, but a block of the store has only the pages requested.
 */
void gf_big_init(bool on);

/*
 * Returns NULL if jemalloc must serve the block. Serves blocks from GF_BIG_MIN bytes on, and others
 * from GF_BIG_ALIGN bytes on only from the pool, so that blocks of about that size are reused.
 * alignment: a power of two. Keeps errno.
 */
void *gf_big_alloc(size_t size, size_t alignment, bool zero);

/* The same for the functions that take an alignment, which time the call. */
void *gf_big_aligned(size_t alignment, size_t size);

/* The following three accept any block of the process, and NULL. */
void gf_big_free(void *block);
size_t gf_big_usable_size(const void *block);
void *gf_big_realloc(void *block, size_t size);

/* Whether the block may belong to the store. */
static inline bool gf_big_may_own(const void *block)
{
    return gf_unlikely(((uintptr_t)block & (GF_BIG_ALIGN - 1)) == 0);
}

/* Bytes in live blocks of the store. */
uint64_t gf_big_live(void);
