/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * Makes jemalloc's system calls that remove pages through libc's functions, because registration
 * caches of RDMA libraries monitor these: UCX patches libc's code, libfabric the procedure linkage
 * tables of all objects. If a page were removed without the cache's knowledge, it would stay
 * registered, and the device would use a stale page. gf_libc_bind has set this library's procedure
 * linkage table to libc's functions before jemalloc starts.
 *
 * A monitor's callback may allocate and free. The thread holds no lock that the callback needs, but
 * the thread's cache may be half flushed. So the thread is marked as reentrant, as jemalloc does
 * around user-defined hooks. The callback's calls then bypass the cache.
 *
 * Mappings that jemalloc has never used are unmapped by a raw system call, because a lock of
 * jemalloc is held at that time. No program can have registered such mappings.
 */

/* Called once, after jemalloc has started. Calls before that need not be visible to monitors. */
void gf_monitored_call_start(void);

/*
 * Hides this thread's calls from monitors, until it is called with false. A forked child returns memory
 * before the monitors' own fork handlers have run, so locks of monitors may still be taken.
 */
void gf_monitored_call_hide(bool hide);

/* Whether the calling thread is in a call that monitors see. */
bool gf_monitored_call_now(void);

/*
 * Moves a mapping to `to`, and replaces what is mapped there. NULL: the kernel chooses the place. May
 * change errno.
 */
void *gf_monitored_mremap(void *address, size_t before, size_t after, void *to);

/*
 * jemalloc calls these functions for its system calls (jemalloc.syms). Calls that remove pages are
 * visible to registration caches (jemalloc_sys.h). The others bypass libc, because a lock of
 * jemalloc may be held. All functions here keep errno. So free keeps errno, as glibc's free does,
 * and need not save it on the fast path. A new mapping is recorded, and gets its memory policy.
 */

void *gf_heap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int gf_heap_munmap(void *address, size_t size);
int gf_heap_munmap_rest(void *address, size_t size);
int gf_heap_madvise(void *address, size_t size, int advice);
int gf_heap_mprotect(void *address, size_t size, int protection);

/* Whether jemalloc serves requests that the store of big blocks (big.h) has not tried to map. */
extern _Atomic bool gf_heap_untried __attribute__((visibility("hidden")));
