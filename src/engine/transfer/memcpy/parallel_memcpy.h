/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some libraries that load models copy each tensor into pinned memory by one call of memcpy, on one
 * thread. With GPUFEED_PARALLEL_MEMCPY, helper threads share these copies. For this, only the
 * pointer through which such a library calls memcpy is replaced (memcpy_slot.h). libgpufeed does
 * not export memcpy.
 */
#ifndef GF_ENGINE_TRANSFER_MEMCPY_PARALLEL_MEMCPY_H
#define GF_ENGINE_TRANSFER_MEMCPY_PARALLEL_MEMCPY_H

#include "engine/transfer/stats/copy_stats.h"

/*
 * Called when the program allocates pinned memory, which such a library does before it copies.
 * Makes the thread `gpufeed` search for newly loaded libraries, at most ten times a second. May be
 * called on any thread; never waits.
 */
void gf_parallel_memcpy_request(size_t bytes);

/*
 * Searches for newly loaded libraries of this kind, and replaces their pointers to memcpy. Takes
 * the loader's lock. Called on the thread `gpufeed`.
 */
void gf_parallel_memcpy_prepare(void);

/*
 * The memcpy that these libraries then call. The copied bytes and the faults are the same as with
 * libc's memcpy, and errno is kept. Several threads copy if the target is pinned memory, the ranges
 * are disjoint, and the copy is large. May be called on any thread.
 */
void *gf_parallel_memcpy(void *to, const void *from, size_t bytes);

void gf_parallel_memcpy_count(struct gf_memcpy_count *ret);

#endif
