/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing where the program itself does not write. A pipe that nobody reads any more or a file at the
 * limit of its size (ulimit -f) would end the process by a signal that it has not earned: such a write
 * fails here and nothing else.
 */
#ifndef GF_BASE_QUIET_H
#define GF_BASE_QUIET_H

#include "base/base.h"

#include <sys/types.h>
#include <sys/uio.h>

/* As writev. No cancellation point; any thread, inside malloc, in a forked child. */
ssize_t gf_quiet_writev(int fd, const struct iovec *parts, int count);

static inline ssize_t gf_quiet_write(int fd, const void *bytes, size_t length)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, length};
    return gf_quiet_writev(fd, &part, 1);
}

#endif
