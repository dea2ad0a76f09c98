/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/heap_api.h"
#include "base/base.h"
#include "preload/heap/big_table.h"

/*
 * The system calls of the big-block store (big.h). Calls that remove pages are visible to
 * registration caches (jemalloc_sys.h). The caller holds no lock. The functions may change errno.
 */

/* Maps `size` bytes at a multiple of `alignment`. Returns 0 if the kernel refuses. */
uintptr_t gf_big_map(size_t size, size_t alignment, int protection);
/* Records a mapping of gf_big_map, and gives it its memory policy and huge pages. */
void gf_big_mapped(uintptr_t start, size_t size);
/* Undoes gf_big_map for a mapping that was not recorded. */
void gf_big_unmap_new(uintptr_t start, size_t size);

/*
 * Grows a recorded mapping in place. Returns 0, or an error: ENOMEM if the addresses behind it are
 * used, EFAULT if the program has split the mapping.
 */
int gf_big_grow(uintptr_t start, size_t before, size_t after);
/* Whether the program has split the mapping: it has mapped or protected the pages that it requested. */
bool gf_big_is_split(uintptr_t start, size_t size);
/*
 * Moves the pages of a recorded mapping to the start of an unrecorded one, which becomes recorded.
 * Returns false if that failed; then the new mapping is lost, because the kernel may have unmapped
 * it already.
 */
bool gf_big_move(uintptr_t start, size_t before, uintptr_t to, size_t after);
/*
 * The same, without a second mapping, which a limit of the address space may not permit. If the kernel
 * chooses a place that is not aligned, the bytes are copied within the mapping. Returns 0 on failure.
 */
uintptr_t gf_big_move_anywhere(uintptr_t start, size_t before, size_t after);

/*
 * Prepares the mapping of a freed block for another block: undoes what the program may have set for
 * the pages of its block (mprotect, mbind, madvise about forks and core dumps). Returns false if the mapping must be
 * unmapped, because pages are locked, or a file or shared memory was mapped over them: in glibc, too,
 * that ends with the block.
 */
bool gf_big_renew(uintptr_t start, size_t size);

/* Unmaps a recorded mapping, or a part of it. If the kernel refuses, only removes the pages. */
void gf_big_unmap(uintptr_t start, size_t size);

/*
 * The pool of kept mappings: freed blocks of the big-block store (big.h), oldest first. Each starts
 * at a boundary of huge pages. The budget (budget.h) counts their bytes. Blocks in the pool
 * belong to no caller, so the pool may unmap them at any time.
 */

/*
 * Registers the fork handlers of the pool's lock, and of the one in mappings.h. Called once, before
 * jemalloc registers its own, so that a fork takes these locks last.
 */
void gf_pool_init(void);
/* Called in a forked child. Frees the lock, which a signal handler that forked may have interrupted. */
void gf_pool_in_child(void);

/*
 * Takes the smallest kept mapping of at least `size` bytes; the rest of it stays in the pool if it is
 * large enough. If all are smaller, takes the largest one of at least half of `size`, for the caller to
 * grow. Returns false if all are smaller than that. For less than GF_BIG_MIN bytes, takes only a
 * mapping that wastes little.
 */
bool gf_pool_take(size_t size, size_t alignment, struct gf_range *ret);

/* Called with the mapping of a block that the program has got. Takes no lock. */
void gf_pool_lives(uintptr_t start, size_t size);
/* Counts the holes (budget.h) anew, which also change with live blocks. The caller holds no lock. */
void gf_pool_count(void);

/* Keeps a mapping, or unmaps it if the pool is full. */
void gf_pool_put(uintptr_t start, size_t size);

/*
 * Unmaps the oldest mapping that is no hole (budget.h), or the oldest one, or about `most` bytes at its
 * end if it is larger. Returns how many bytes it unmapped; 0 if the pool is empty. The caller holds no lock.
 */
size_t gf_pool_drop(uint64_t most);
