/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the embedded jemalloc or the program's own allocator serves malloc, starts
 * jemalloc, and provides struct gf_heap_ops for the engine (abi/heap_api.h).
 */
#ifndef GF_PRELOAD_HEAP_HEAP_H
#define GF_PRELOAD_HEAP_HEAP_H

#include "abi/heap_api.h"

/*
 * Decides the mode and starts jemalloc. Idempotent; any thread, before main, under the loader's
 * lock; keeps errno. True only in the call that decided. Only gf_start (preload/malloc/start.h)
 * calls this; it then opens the log.
 */
bool gf_heap_init(void);

/* Whether the calling thread is in a call by which the heap removes pages. */
bool gf_heap_unmaps(void);

/* The heap's functions for the engine. After gf_heap_init; any thread. */
const struct gf_heap_ops *gf_heap_ops(void);

#endif
