/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purges free pages that the program does not reuse: those that stayed free for 10 to 20
 * seconds. In a process with an engine, the engine's thread does this. In any other process, a
 * thread does it within a call of malloc, for all arenas in turn and in small parts, at most every
 * 50 ms. Pages that are reused within 10 seconds are never purged, so a loop of batches pays no
 * page fault.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PURGE_UNUSED_H
#define GF_PRELOAD_HEAP_PAGES_PURGE_UNUSED_H

#include "base/base.h"

/*
 * A thread's count of allocated bytes in jemalloc 5.3.0, and the counts at which its next events
 * are due. An event that comes early is to jemalloc one of its own events, without work.
 */
struct gf_purge_unused_count {
    bool allocates; /* false: the counts are those of freed bytes */
    const uint64_t *now;
    uint64_t *last, *next;
    uint64_t *next_fast; /* 0: each call looks for events */
};

/*
 * Returns how many bytes a thread allocates before its first event. Later calls return UINT64_MAX.
 */
uint64_t gf_purge_unused_first(void);

/*
 * Called at an event, within a call of malloc or free that holds no lock of jemalloc. Purges
 * what is due, and sets the count of the next event. Keeps errno.
 */
void gf_purge_unused_event(const struct gf_purge_unused_count *count);

/* Called when the calling thread has freed pages. Lets its next event come early. */
void gf_purge_unused_soon(void);

/* gf_heap_ops.purge_unused */
void gf_purge_unused_now(void);

/* Pure function: how many bytes may be purged at once, this long after the last time. */
uint64_t gf_purge_unused_part(uint64_t passed_ns);

/* The bytes that the thread's round may still purge, or NULL; used by callouts/evict.c. */
extern __thread uint64_t *gf_purge_unused_left __attribute__((visibility("hidden")));

#endif
