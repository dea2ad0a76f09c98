/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's system calls: jemalloc calls these functions instead (jemalloc.syms). Those that take
 * pages away are made so that registration caches see them (monitored_call.h). The others bypass
 * libc, because a lock of jemalloc may be held. They keep errno, as glibc's free does: saving it
 * around every free would slow the fast path. A new mapping is recorded, and gets its node and huge
 * pages.
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
