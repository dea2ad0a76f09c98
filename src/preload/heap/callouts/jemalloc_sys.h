/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc calls these functions for its system calls (jemalloc.syms). Calls that remove pages are
 * visible to registration caches (monitored_call.h). The others bypass libc, because a lock of
 * jemalloc may be held. All functions here keep errno. So free keeps errno, as glibc's free does,
 * and need not save it on the fast path. A new mapping is recorded, and gets its memory policy.
 */
#ifndef GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_SYS_H
#define GF_PRELOAD_HEAP_CALLOUTS_JEMALLOC_SYS_H

#include <stddef.h>
#include <sys/types.h>

void *gf_heap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int gf_heap_munmap(void *address, size_t size);
int gf_heap_madvise(void *address, size_t size, int advice);
int gf_heap_mprotect(void *address, size_t size, int protection);

#endif
