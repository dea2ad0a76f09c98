/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory of this process at addresses that may be unmapped, without causing a signal. The
 * functions make only system calls. They may be called on any thread, also inside malloc.
 */
#ifndef GF_OS_SAFE_READ_H
#define GF_OS_SAFE_READ_H

#include "base/base.h"

/*
 * If process_vm_readv is forbidden, opens /proc/thread-self/mem, which later reads use instead.
 * Called after gf_permit_find, when the log starts and within cuInit (os/kept_file.h).
 */
void gf_safe_read_start(void);

/* Copies bytes up to the first unreadable byte. Returns the number of bytes copied. Keeps errno. */
size_t gf_safe_read_some(uintptr_t address, void *ret, size_t size);

/* Copies `size` bytes. Returns true if all of them were readable. */
static inline bool gf_safe_read(uintptr_t address, void *ret, size_t size)
{
    return gf_safe_read_some(address, ret, size) == size;
}

#endif
