/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/range_reset.h"

#include "os/permit.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system call fails if the CPU has no protection keys. mprotect keeps the key of the pages. */
static bool make_writable(void *at, size_t bytes)
{
    return syscall(SYS_pkey_mprotect, at, bytes, PROT_READ | PROT_WRITE, 0) == 0 ||
           mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool gf_range_reset(void *at, size_t bytes)
{
    return gf_permit(gf_permit_reset_range) && make_writable(at, bytes) && munlock(at, bytes) == 0;
}

bool gf_range_inherit(void *at, size_t bytes, bool on)
{
    return madvise(at, bytes, on ? MADV_DOFORK : MADV_DONTFORK) == 0;
}
