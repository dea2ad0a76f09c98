/* SPDX-License-Identifier: Apache-2.0 */
/* Counts jemalloc's free pages, and purges a part of them. */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_EVICT_H
#define GF_PRELOAD_HEAP_CALLOUTS_EVICT_H

#include "preload/heap/callouts/extent.h"

/* Counts pages that the program freed. The caller then passes the extent to jemalloc. */
void gf_evict_freed(const struct extent *extent, size_t size);

/*
 * Purges about `bytes` of free pages, the oldest of each arena, one arena after the other. The
 * caller holds no lock of jemalloc. May change errno.
 */
void gf_evict(uint64_t bytes);

#endif
