/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of freed pages. They stay for seconds as they are ("dirty": nobody else can have
 * them), then they are lent (MADV_FREE: they stay, reuse costs no fault, and the kernel takes them
 * when somebody needs memory). Given back for good only at a fork, in the child, and when memory
 * is short.
 *
 * How much may be dirty is a part of what the process could still take, looked at each time that
 * so much has been freed: a fill loop then pays one look and one MADV_FREE for many rounds.
 */
#ifndef GF_HEAP_KEEP_H
#define GF_HEAP_KEEP_H

#include "config/options.h"
#include "heap/heap.h"

/* Freed since all was last lent, and how much of that leads to a look; for gf_keep_freed alone. */
struct gf_keep_count {
    _Alignas(64) uint64_t freed, look_at;
};
extern struct gf_keep_count gf_keep_count;

GF_COLD void gf_keep_look(void);

/* Bytes went back to jemalloc's caches; no lock of jemalloc's is held. Keeps errno. */
static inline void gf_keep_freed(size_t size)
{
    const uint64_t freed = __atomic_add_fetch(&gf_keep_count.freed, size, __ATOMIC_RELAXED);
    if (gf_unlikely(freed >= __atomic_load_n(&gf_keep_count.look_at, __ATOMIC_RELAXED)))
        gf_keep_look();
}

/*
 * jemalloc is about to give back all that an arena keeps. It does so of its own accord when an
 * arena's last thread ends: then a program of short-lived threads pays every fault again and again.
 */
bool gf_keep_means_all(void);
/* All that is kept, to the kernel, now; also for malloc_trim. */
void gf_keep_purge(void);

/* New memory was mapped, perhaps under jemalloc's locks: the next look comes soon. */
void gf_keep_grown(void);

/* Once, after jemalloc has started, so that our handler in forked children comes after its. */
void gf_keep_init(const struct gf_options *options);

/* Pure: how much of `room` may be dirty. watched: somebody polls and lends in time. */
uint64_t gf_keep_bound(uint64_t room, enum gf_profile profile, bool watched);

/* gf_heap_ops */
void gf_keep_read(struct gf_heap_kept *ret);
void gf_keep_watched(void (*wake)(void));
bool gf_keep_lend(void);
bool gf_keep_give_back(void);

#endif
