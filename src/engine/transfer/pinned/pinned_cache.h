/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda.h"
#include "base/base.h"

/* The size of a chunk: one of the driver's mappings from which it allocates small pinned blocks. */
#define GF_PINNED_CHUNK_SIZE ((size_t)2 << 20)

/*
 * Serves the program's allocations of small pinned blocks. The driver allocates them from mappings
 * of 2 MiB. Creating such a mapping for the first block and unmapping it with the last one takes
 * half a millisecond. So the library keeps one mapping of each context with a keepalive: a small
 * block of its own, which it allocates just before the program's first block. The driver still
 * serves each call of the program with the caller's arguments.
 *
 * Without the keepalive, the driver would have unmapped a mapping that holds no block of the
 * program, and created a new one for the next block. The bytes of a new mapping are zero. So the
 * library zeroes a block if only a keepalive kept its mapping, and zeroes no other block. The
 * driver reports for all blocks of a mapping the flags of the mapping's first block, so
 * gf_pinned_cache_flags reports the flags of the block that would have been the first in a new
 * mapping.
 *
 * All functions may be called on any thread, and hold no lock during a CUDA call. An allocation
 * never waits for the device, because the driver's allocation does not wait. So keepalives are
 * freed only inside calls of the program that wait anyway, such as frees.
 */

/* Larger blocks have their own mappings. */
#define GF_PINNED_CACHE_MOST (GF_PINNED_CHUNK_SIZE - 4096)
#define GF_PINNED_CACHE_NO_CONTEXT UINT64_MAX

/* Whether the driver has the functions that the cache needs. */
bool gf_pinned_cache_can(const struct gf_cuda *cuda);

/*
 * Sets whether the program's allocations were all made through gf_pinned_cache_alloc. If another
 * block may be in a mapping, no mapping is kept, because what keeping changes would change that
 * block, too.
 */
void gf_pinned_cache_set_complete(bool complete);

/*
 * Serves a cuMemHostAlloc of at most GF_PINNED_CACHE_MOST bytes in the current context, whose id is
 * `context`, or GF_PINNED_CACHE_NO_CONTEXT. From then on a keepalive keeps a mapping of the context,
 * unless `most` contexts already have a keepalive.
 */
CUresult gf_pinned_cache_alloc(const struct gf_cuda *cuda, uint64_t context, unsigned most,
                               void **pp, size_t bytes, unsigned flags);

/*
 * Serves a cuMemFreeHost. False: gf_pinned_cache_alloc did not return this block, and the caller
 * must call the driver. If only a keepalive keeps the block's mapping now, *ret_kept is the id of
 * the keepalive's context, else 0. Without the library, the free would have waited for that
 * context's work and unmapped the mapping. *ret_reusable: whether a later block may get its pages.
 * Otherwise the caller should call gf_pinned_cache_trim, because a child may still use the pages.
 * If a child is known to use them, the keepalive is freed before the block.
 */
bool gf_pinned_cache_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result,
                          uint64_t *ret_kept, bool *ret_reusable);

/*
 * Serves a cuMemHostUnregister of a keepalive, which the program does not know. False: p is not a
 * keepalive.
 */
bool gf_pinned_cache_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result);

/*
 * Replaces the flags that the driver reported for p by the flags that it would have reported
 * without the library.
 */
void gf_pinned_cache_flags(const struct gf_cuda *cuda, const void *p, unsigned *flags);

/*
 * Frees the keepalive of the context with this id, if the keepalive's mapping holds no block of the
 * program. Called only inside a call of the program that may wait for this context. False: nothing
 * was freed.
 */
bool gf_pinned_cache_trim(const struct gf_cuda *cuda, uint64_t context);

/* Called when the context, and with it its mappings, has ended. */
void gf_pinned_cache_forget(uint64_t context);

/*
 * Returns the bytes of mappings that only keepalives keep, in all contexts, for the report. Returns
 * 0 if the lock is not free within 10 ms.
 */
uint64_t gf_pinned_cache_kept(void);
