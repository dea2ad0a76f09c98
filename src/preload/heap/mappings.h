/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/heap_api.h"
#include "base/atomic.h"
#include "base/base.h"

/*
 * A sorted table of address ranges, of fixed size. Adjacent ranges are merged. The kernel usually
 * places new mappings next to each other, so a heap of many GiB needs only a few entries. The
 * caller must hold a lock that protects the table.
 */

#define GF_RANGES_MAX 2048

struct gf_ranges {
    struct gf_range at[GF_RANGES_MAX];
    size_t count;
    size_t bytes;    /* the sum of all sizes */
    bool overflowed; /* a range did not fit, so the table is incomplete */
};

void gf_ranges_add(struct gf_ranges *ranges, uintptr_t start, size_t size);
/* Removes a range from the table. Parts of the range that are not in the table are ignored. */
void gf_ranges_remove(struct gf_ranges *ranges, uintptr_t start, size_t size);

/*
 * A lock that is held for a few instructions, and never during a system call, except by a fork.
 * Threads that wait for it sleep. If a real-time thread called sched_yield in a loop instead, it
 * could keep the holder off the CPU. Except in a fork, a holder takes no other lock. The functions
 * keep errno.
 */

struct gf_lock {
    _Atomic unsigned state;
};

void gf_lock_take(struct gf_lock *lock);
void gf_lock_give(struct gf_lock *lock);

/*
 * How many locks of the heap and of jemalloc this thread holds, waits for, or is about to release. A
 * signal handler that interrupts the thread changes the count and restores it. The handler may set a
 * limit or fork; nothing is purged then unless the count is 0.
 */
extern __thread volatile unsigned gf_locks;

/* SECCOMP_MODE_STRICT applies to this thread: it frees memory without a system call. */
extern __thread bool gf_strict;

/*
 * The address ranges that jemalloc has mapped, and the memory policy of new mappings. The functions
 * may be called on any thread. The caller may hold locks of jemalloc, because this module's lock is
 * taken after them.
 */

/* A fork takes this module's lock (big_pool.c). */
void gf_mappings_lock(void);
void gf_mappings_unlock(void);

/* Records a range that was mapped. */
void gf_mappings_add(uintptr_t start, size_t size);
/*
 * Removes a range. Call this before the range is unmapped, because after that another thread can
 * map the addresses.
 */
void gf_mappings_remove(uintptr_t start, size_t size);

/*
 * Whether unmapping this range would split a mapping while half of the table is full. The kernel allows
 * 65530 mappings for each process, of which the program needs some.
 */
bool gf_mappings_crowded_by_hole(uintptr_t start, size_t size);

/* Gives a new mapping the policy that gf_mappings_set_node has set. May change errno. */
void gf_mappings_apply_policy(void *start, size_t size);
/* Gives a mapping for which the program may have set a policy the one that a new mapping has. */
void gf_mappings_renew_policy(void *start, size_t size);

/* Bytes that are mapped now, including jemalloc's own tables. */
uint64_t gf_mappings_bytes(void);

/* Copies the i-th range. Returns false if there is no i-th range. */
bool gf_mappings_at(size_t i, struct gf_range *ret);

/* Mappings from this size on are first tried: see gf_mappings_fit. */
#define GF_MAPPINGS_ASKED_MIN ((size_t)1 << 30)

/*
 * Tries whether the kernel maps another `size` bytes if it counts them as used memory. The kernel
 * may refuse because of ulimit -v, strict overcommit, or the sum of memory and swap. Keeps errno.
 */
bool gf_mappings_fit(size_t size);
/*
 * The same for memory that the process may write to, which ulimit -d limits, too. After
 * mlockall(MCL_FUTURE), the kernel populates the trial.
 */
bool gf_mappings_fit_writable(size_t size);

/* These are the members set_node, refused and ranges of gf_heap_ops. */
void gf_mappings_set_node(int policy, const struct gf_nodes *nodes);
uint64_t gf_mappings_refused(void);
size_t gf_mappings_ranges(struct gf_range *ret, size_t cap);
