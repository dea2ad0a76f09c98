/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some libraries that load models copy each tensor into pinned memory by one call of memcpy, on one
 * thread. For these libraries, helper threads share such copies (GPUFEED_PARALLEL_MEMCPY). Only the
 * library's own pointer to memcpy is replaced (memcpy_slot.h); no function is exported.
 */
#ifndef GF_ENGINE_TRANSFER_MEMCPY_PARALLEL_MEMCPY_H
#define GF_ENGINE_TRANSFER_MEMCPY_PARALLEL_MEMCPY_H

#include "engine/transfer/stats/copy_stats.h"

/*
 * Called at allocations of pinned memory, which such a library makes before it copies. Lets the
 * library's own thread look for newly loaded libraries, at most ten times a second. Any thread;
 * never waits.
 */
void gf_parallel_memcpy_request(size_t bytes);

/*
 * Looks for newly loaded libraries, and replaces their pointers. Takes the loader's lock. Called on
 * the library's own thread.
 */
void gf_parallel_memcpy_prepare(void);

/*
 * memcpy for these libraries. Bytes and faults are those of libc's memcpy, and errno is kept.
 * Several threads copy if the target is pinned memory, the ranges are disjoint, and the copy is
 * large. Any thread.
 */
void *gf_parallel_memcpy(void *to, const void *from, size_t bytes);

void gf_parallel_memcpy_count(struct gf_memcpy_count *ret);

#endif
