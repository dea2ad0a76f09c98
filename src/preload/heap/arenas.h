/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the jemalloc arena that a thread allocates from. These functions do nothing if another
 * allocator serves malloc.
 */
#pragma once

#include "base/base.h"

/* gf_heap_ops.set_cpus */
void gf_arenas_set_cpus(unsigned cpus);

/*
 * Assigns an arena to the calling thread, which the program created. Called before the thread's
 * first heap call.
 */
void gf_arenas_thread_started(void);

/*
 * Lets the calling thread share the main thread's arena. Called before the thread's first heap
 * call, on threads of the library and of the driver. Such threads hardly allocate. But an arena of
 * their own would have locks on nine pages, which each fork writes and the kernel then copies
 * (docs/heap.md). A thread that never allocates must not call this function, because the function
 * creates a cache for the thread.
 */
void gf_arenas_share_main(void);

/* Called in a forked child. Resets the lock, which a thread of the parent may have held. */
void gf_arenas_in_child(void);
