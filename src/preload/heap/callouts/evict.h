/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_EVICT_H
#define GF_PRELOAD_HEAP_CALLOUTS_EVICT_H

/*
 * Called on the thread that does a round of purge_unused.h. In each arena it runs jemalloc's decay,
 * and then purges unused pages. thread: jemalloc's state of the calling thread. No lock is
 * held.
 */
void gf_evict_round(void *thread);

#endif
