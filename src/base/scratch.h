/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for one call that needs more than a small stack can hold. A thread's stack may have only
 * 16 KiB, including all thread-local variables. The memory is mapped by system calls, so it is not
 * from the heap, and no hook of this library is called. Taking and returning it costs about 2 us.
 * The functions may be called on any thread, inside malloc and in a forked child. They keep errno
 * unless the kernel refuses the mapping.
 */
#ifndef GF_BASE_SCRATCH_H
#define GF_BASE_SCRATCH_H

#include "base/base.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * ThreadSanitizer observes calls of mmap and munmap, but no raw system calls. With raw system
 * calls, it would report a race if two threads map the same address one after the other.
 */
#ifdef __SANITIZE_THREAD__
#define gf_scratch_map(bytes, prot, flags) mmap(NULL, bytes, prot, flags, -1, 0)
#define gf_scratch_unmap(at, bytes) munmap(at, bytes)
#else
#define gf_scratch_map(bytes, prot, flags)                                                         \
    (void *)syscall(SYS_mmap, NULL, bytes, prot, flags, -1, 0L)
#define gf_scratch_unmap(at, bytes) syscall(SYS_munmap, at, bytes)
#endif

/* Returns zeroed memory; NULL if the kernel refuses the mapping. */
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
