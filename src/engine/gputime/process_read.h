/* SPDX-License-Identifier: Apache-2.0 */
/* Reads memory of this process or of a child process, at addresses that may be unmapped. */
#ifndef GF_ENGINE_GPUTIME_PROCESS_READ_H
#define GF_ENGINE_GPUTIME_PROCESS_READ_H

#include "base/base.h"

#include <sys/types.h>

/*
 * Copies bytes up to the first unreadable byte. Returns the number of bytes copied. pid: 0 for this
 * process. Keeps errno.
 */
size_t gf_process_read_some(pid_t pid, uintptr_t address, void *ret, size_t size);

/* Copies `size` bytes. Returns true if all of them were readable. */
static inline bool gf_process_read(pid_t pid, uintptr_t address, void *ret, size_t size)
{
    return gf_process_read_some(pid, address, ret, size) == size;
}

#endif
