/* SPDX-License-Identifier: Apache-2.0 */
#include "base/safe_write.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
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

/*
 * Whether root or the process's user owns the link at path. In a folder that other users can write
 * to, another user could create a link to any file that this process can write.
 */
static GF_COLD bool is_trusted_link(const char *path)
{
    struct stat found;

    return lstat(path, &found) == 0 && S_ISLNK(found.st_mode) &&
           (found.st_uid == 0 || found.st_uid == geteuid());
}

static long open_to_append(const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    const long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_NOFOLLOW, 0666);

    if (fd >= 0 || errno != ELOOP)
        return fd;
    if (is_trusted_link(path))
        return syscall(SYS_openat, AT_FDCWD, path, flags, 0666);
    errno = ELOOP;
    return fd;
}

ssize_t gf_safe_append(const char *path, const char *first, size_t first_length, const char *second,
                       size_t second_length)
{
    const struct iovec parts[] = {{(void *)(uintptr_t)first, first_length},
                                  {(void *)(uintptr_t)second, second_length}};
    const long fd = open_to_append(path);

    if (fd < 0)
        return -errno;
    const ssize_t written = gf_safe_writev((int)fd, parts, 2);
    const int error = written < 0 ? errno : 0;
    syscall(SYS_close, fd);
    return error ? -error : written;
}
