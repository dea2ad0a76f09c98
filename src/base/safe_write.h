/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that raise no signal. A plain write raises SIGPIPE if a pipe has no reader, and SIGXFSZ if
 * a file is at its size limit (ulimit -f). Either signal could end the program. The functions below
 * return an error instead.
 */
#ifndef GF_BASE_SAFE_WRITE_H
#define GF_BASE_SAFE_WRITE_H

#include "base/base.h"

#include <sys/types.h>
#include <sys/uio.h>

/*
 * Like writev, but not a cancellation point. It may be called on any thread, inside malloc and in a
 * forked child.
 */
ssize_t gf_safe_writev(int fd, const struct iovec *parts, int count);

static inline ssize_t gf_safe_write(int fd, const void *bytes, size_t length)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, length};
    return gf_safe_writev(fd, &part, 1);
}

#endif
