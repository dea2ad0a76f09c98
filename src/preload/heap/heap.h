/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the embedded jemalloc or the program's own allocator serves malloc, starts
 * jemalloc, and provides struct gf_heap_ops for the engine (abi/heap_api.h).
 */
#pragma once

#include "abi/heap_api.h"

/*
 * Decides the mode, and starts jemalloc if jemalloc is to serve malloc. Returns true only to the
 * call that decided. Only gf_start (preload/malloc/start.h) calls this function, and then opens the
 * log. Idempotent. Keeps errno. May be called on any thread, also before main and under the
 * loader's lock.
 */
bool gf_heap_init(void);

/* Returns the heap's functions for the engine. May be called on any thread, after gf_heap_init. */
const struct gf_heap_ops *gf_heap_ops(void);
