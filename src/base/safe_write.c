/* SPDX-License-Identifier: Apache-2.0 */
#include "base/safe_write.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The bit of a signal in the kernel's signal set. libc's functions for signal sets are not used,
 * because another preload may replace them.
 */
#define BIT(signal) (UINT64_C(1) << ((signal)-1))

ssize_t gf_safe_writev(int fd, const struct iovec *parts, int count)
{
    const uint64_t both = BIT(SIGPIPE) | BIT(SIGXFSZ);
    const struct timespec at_once = {0, 0};
    uint64_t before = 0, pending = both;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &before, sizeof(both));
    syscall(SYS_rt_sigpending, &pending, sizeof(pending));
    const ssize_t written = syscall(SYS_writev, fd, parts, count);
    const int error = errno;
    /* Removes the signal that this write raised, unless the same signal was pending before. */
    const uint64_t ours = (error == EPIPE   ? BIT(SIGPIPE)
                           : error == EFBIG ? BIT(SIGXFSZ)
                                            : 0) &
                          ~pending;
    if (written < 0 && ours)
        syscall(SYS_rt_sigtimedwait, &ours, NULL, &at_once, sizeof(ours));
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    errno = error;
    return written;
}
