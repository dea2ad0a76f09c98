/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purges pages that stayed free for 10 to 20 seconds. With an engine, its thread does this.
 * Otherwise, threads of the program do it within calls of malloc, for all arenas in turn, in small
 * parts and at most every 50 ms. Pages that the program reuses within 10 seconds are never purged.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PURGE_UNUSED_H
#define GF_PRELOAD_HEAP_PAGES_PURGE_UNUSED_H

#include "base/base.h"

/*
 * Where jemalloc 5.3.0 stores a thread's count of allocated bytes, and the counts at which its next
 * event is due. The library may lower these counts. jemalloc then handles an event that needs no
 * work of its own.
 */
struct gf_purge_unused_count {
    bool allocates; /* false: counts of freed bytes */
    const uint64_t *now;
    uint64_t *last, *next;
    uint64_t *next_fast; /* 0: each call checks for events */
};

/*
 * At its first call on a thread, returns the number of bytes that the thread allocates before its
 * first event. Later calls return UINT64_MAX.
 */
uint64_t gf_purge_unused_first(void);

/*
 * Called at an event, within a call of malloc or free that holds no lock of jemalloc. Does a round
 * if due, and sets the count of the next event. Keeps errno.
 */
void gf_purge_unused_event(const struct gf_purge_unused_count *count);

/* Called when the thread has freed pages. Its next event then comes earlier. */
void gf_purge_unused_soon(void);

/* gf_heap_ops.purge_unused */
void gf_purge_unused_now(void);

/*
 * Pure function: returns how many bytes a round may purge that begins passed_ns after the last
 * round.
 */
uint64_t gf_purge_unused_part(uint64_t passed_ns);

/*
 * The bytes that the calling thread's round may still purge, for callouts/evict.c; NULL outside of
 * rounds.
 */
extern __thread uint64_t *gf_purge_unused_left __attribute__((visibility("hidden")));

#endif
