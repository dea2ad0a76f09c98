/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for one call, if it needs more than a small stack has: a thread's stack may have only 16
 * KiB, which includes all thread-local variables. Costs about 2 us. The memory is mapped, not from
 * the heap, and no hook sees the mapping. Any thread, inside malloc, in a forked child. Keeps errno
 * unless it fails.
 */
#ifndef GF_BASE_SCRATCH_H
#define GF_BASE_SCRATCH_H

#include "base/base.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * ThreadSanitizer must see these calls. Otherwise it reports a race if two threads map the same
 * address one after the other.
 */
#ifdef __SANITIZE_THREAD__
#define gf_scratch_map(bytes, prot, flags) mmap(NULL, bytes, prot, flags, -1, 0)
#define gf_scratch_unmap(at, bytes) munmap(at, bytes)
#else
#define gf_scratch_map(bytes, prot, flags)                                                         \
    (void *)syscall(SYS_mmap, NULL, bytes, prot, flags, -1, 0L)
#define gf_scratch_unmap(at, bytes) syscall(SYS_munmap, at, bytes)
#endif

/* Zeroed; NULL if the kernel refuses the mapping. */
static inline void *gf_scratch_take(size_t bytes)
{
    void *at = gf_scratch_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    return at == MAP_FAILED ? NULL : at;
}

static inline void gf_scratch_give(void *at, size_t bytes)
{
    if (at)
        gf_scratch_unmap(at, bytes);
}

#endif
