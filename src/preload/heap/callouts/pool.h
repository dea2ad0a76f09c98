/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of kept mappings: freed blocks of the big-block store (big.h), oldest first. Each starts
 * at a boundary of huge pages. The budget (pages/budget.h) counts their bytes. Blocks in the pool
 * belong to no caller, so the pool may unmap them at any time.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_POOL_H
#define GF_PRELOAD_HEAP_CALLOUTS_POOL_H

#include "abi/heap_api.h"

#define GF_BIG_ALIGN ((size_t)2 << 20)
/* Blocks from this size on are served by the store. */
#define GF_BIG_MIN ((size_t)4 << 20)

/* Registers the fork handlers of the pool's lock. Called with gf_mappings_init. */
void gf_pool_init(void);
/* Called in a forked child, before the pool is used. Returns whether its lock was held: a signal handler forked. */
bool gf_pool_in_child(void);

/*
 * Takes the kept mapping with the least waste that has at least `size` bytes; what it has beyond
 * that stays in the pool if it is large enough. If there is none, takes the largest mapping that has
 * half of `size`, for the caller to grow. Returns false if there is neither. For less than GF_BIG_MIN
 * bytes, takes only a mapping that wastes little.
 */
bool gf_pool_take(size_t size, size_t alignment, struct gf_range *ret);

/* Keeps a mapping, or unmaps it if the pool is full. */
void gf_pool_put(uintptr_t start, size_t size);

/*
 * Unmaps the oldest mapping, or about `most` bytes at its end if it is larger. Returns how many bytes
 * it unmapped; 0 if the pool is empty. The caller holds no lock.
 */
size_t gf_pool_drop(uint64_t most);

#endif
