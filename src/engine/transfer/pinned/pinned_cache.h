/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small pinned blocks. The driver allocates them from mappings of 2 MiB. Creating such a mapping
 * for the first block and unmapping it with the last one takes half a millisecond. So one mapping
 * of each context is kept by a keepalive: a tiny block of the library that is allocated just before
 * the program's first block. The driver still serves each call with the caller's arguments.
 *
 * Without the keepalive the driver would have created a new mapping, whose blocks are zero. So a
 * block in a mapping that only a keepalive kept is zeroed; no other block is. Such blocks would
 * also have the flags of the first block in the new mapping, so gf_pinned_cache_flags reports those
 * flags.
 *
 * Any thread; no lock is held during a CUDA call. An allocation never waits for the device, because
 * the driver's does not. So keepalives are freed only inside the program's frees, which wait.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_PINNED_CACHE_H
#define GF_ENGINE_TRANSFER_PINNED_PINNED_CACHE_H

#include "abi/cuda.h"
#include "base/base.h"
#include "engine/transfer/pinned/pinned_chunk.h"

#define GF_PINNED_CACHE_MOST ((size_t)1 << 20) /* larger blocks have their own mappings */

/* Whether the driver has the functions that the cache needs. */
bool gf_pinned_cache_can(const struct gf_cuda *cuda);

/*
 * cuMemHostAlloc of at most GF_PINNED_CACHE_MOST bytes in the current context, which has this id.
 * From then on the context keeps a mapping, unless `most` contexts already keep one.
 */
CUresult gf_pinned_cache_alloc(const struct gf_cuda *cuda, uint64_t context, unsigned most,
                               void **pp, size_t bytes, unsigned flags);

/*
 * cuMemFreeHost. False: gf_pinned_cache_alloc did not return this block, and the caller must call
 * the driver. *ret_kept is the context if only its keepalive keeps the block's mapping now, else 0.
 * Without the library, the call would have waited for that context and unmapped the mapping.
 */
bool gf_pinned_cache_free(const struct gf_cuda *cuda, void *p, CUresult *ret_result,
                          uint64_t *ret_kept);

/*
 * cuMemHostUnregister of a keepalive, which the program does not know. False: p is not a keepalive.
 */
bool gf_pinned_cache_unregister(const struct gf_cuda *cuda, void *p, CUresult *ret_result);

/*
 * Replaces the flags that the driver reported for p by the flags that it would report without the
 * library.
 */
void gf_pinned_cache_flags(const struct gf_cuda *cuda, const void *p, unsigned *flags);

/*
 * Frees the keepalive of the current context, which has this id, if its mapping holds no block of
 * the program. Called only inside a call of the program that may wait. False: nothing was freed.
 */
bool gf_pinned_cache_trim(const struct gf_cuda *cuda, uint64_t context);

/* Called when the context has ended, and its mappings with it. */
void gf_pinned_cache_forget(uint64_t context);

/*
 * Returns the bytes that only keepalives keep, in all contexts, for the report. Returns 0 if the
 * lock is not free in time.
 */
uint64_t gf_pinned_cache_kept(void);

#endif
