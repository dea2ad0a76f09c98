/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes jemalloc's system calls that remove pages, through libc's functions. Registration caches of
 * RDMA libraries monitor those functions: UCX writes into libc's code, libfabric into the procedure
 * linkage tables of all objects. A page that is removed without their knowledge stays registered,
 * and the device would use a stale page. The calls below go through this library's table, whose
 * entries gf_libc_bind sets to libc's functions before jemalloc starts.
 *
 * A monitor's callback may allocate and free. jemalloc holds no lock that the callback needs, but
 * the thread's cache may be half flushed. So the thread is marked as reentrant, as jemalloc does
 * around the hooks of its users: its calls then bypass the cache.
 *
 * Mappings that jemalloc unmaps before it has used them are unmapped without libc, because no
 * program can have registered them and because a lock of jemalloc is held.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_MONITORED_CALL_H
#define GF_PRELOAD_HEAP_CALLOUTS_MONITORED_CALL_H

#include "base/base.h"

#include <sys/types.h>

/* Called once, after jemalloc has started. The start makes no call that a monitor must see. */
void gf_monitored_call_start(void);

/* Whether the calling thread is in one of the calls below. */
bool gf_monitored_call_now(void);

/* These may change errno. */
int gf_monitored_munmap(void *address, size_t size);
int gf_monitored_madvise(void *address, size_t size, int advice);
void *gf_monitored_mmap(void *address, size_t size, int protection, int flags, int fd,
                        off_t offset);

#endif
