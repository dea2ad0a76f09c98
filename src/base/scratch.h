/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for one call, of a size that a program's small stack may not have: a thread's stack can be of 16 KiB,
 * with all variables of threads in it. Some 2 us. Not from the heap, and seen by nobody's hooks; any
 * thread, inside malloc, in a forked child. Keeps errno but where there is none.
 */
#ifndef GF_BASE_SCRATCH_H
#define GF_BASE_SCRATCH_H

#include "base/base.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Zeroed; NULL: the system has none. */
static inline void *gf_scratch_take(size_t bytes)
{
    void *at = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    return at == MAP_FAILED ? NULL : at;
}

static inline void gf_scratch_give(void *at, size_t bytes)
{
    if (at)
        syscall(SYS_munmap, at, bytes);
}

#endif
