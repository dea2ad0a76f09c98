/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purges pages that stayed free for 10 to 20 seconds. In a process with an engine, the engine's
 * thread does this. In other processes, threads of the program do it within calls of malloc, for
 * all arenas in turn, in small parts and at most every 50 ms. Pages that the program reuses within
 * 10 seconds are never purged.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PURGE_UNUSED_H
#define GF_PRELOAD_HEAP_PAGES_PURGE_UNUSED_H

#include "base/base.h"

/*
 * Where jemalloc 5.3.0 stores a thread's count of allocated bytes, and the counts at which the
 * thread's next event is due. The library may lower the latter. An event is then due earlier, at
 * which jemalloc itself has nothing to do.
 */
struct gf_purge_unused_count {
    bool allocates; /* false: counts of freed bytes */
    const uint64_t *now;
    uint64_t *last, *next;
    uint64_t *next_fast; /* if *next_fast is 0, each call checks for events */
};

/*
 * At its first call on a thread, returns the number of bytes that the thread allocates before its
 * first event. Later calls return UINT64_MAX.
 */
uint64_t gf_purge_unused_first(void);

/*
 * Called at an event, within a call of malloc or free that holds no lock of jemalloc. Does a round
 * if one is due, and sets the count at which the next event is due. Keeps errno.
 */
void gf_purge_unused_event(const struct gf_purge_unused_count *count);

/* Called when the calling thread has freed pages. The thread's next event then comes earlier. */
void gf_purge_unused_soon(void);

/* gf_heap_ops.purge_unused */
void gf_purge_unused_now(void);

/*
 * Pure function: returns how many bytes a round may purge if it begins passed_ns after the last
 * round.
 */
uint64_t gf_purge_unused_part(uint64_t passed_ns);

/*
 * For callouts/evict.c: points to the number of bytes that the calling thread's round may purge
 * from now on. NULL while the thread is in no round.
 */
extern __thread uint64_t *gf_purge_unused_left __attribute__((visibility("hidden")));

#endif
