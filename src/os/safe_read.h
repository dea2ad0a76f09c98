/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory of this process at addresses that may be unmapped, without causing a signal. Makes
 * only system calls. Any thread, also inside malloc.
 */
#ifndef GF_OS_SAFE_READ_H
#define GF_OS_SAFE_READ_H

#include "base/base.h"

/*
 * If process_vm_readv is forbidden, opens /proc/thread-self/mem for the reads. Called at the log's
 * start and within cuInit (os/kept_file.h), after gf_permit_find.
 */
void gf_safe_read_start(void);

/* Copies bytes up to the first unreadable one, and returns their number. Keeps errno. */
size_t gf_safe_read_some(uintptr_t address, void *ret, size_t size);

/* True if all bytes were copied. */
static inline bool gf_safe_read(uintptr_t address, void *ret, size_t size)
{
    return gf_safe_read_some(address, ret, size) == size;
}

#endif
