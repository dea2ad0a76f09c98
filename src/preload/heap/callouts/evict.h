/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_EVICT_H
#define GF_PRELOAD_HEAP_CALLOUTS_EVICT_H

/*
 * Does the work of one round (purge_unused.h): in each arena, runs jemalloc's decay, then purges
 * unused pages. thread: jemalloc's state of the calling thread. The calling thread must hold no
 * lock.
 */
void gf_evict_round(void *thread);

#endif
