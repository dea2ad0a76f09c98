/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/raw.h"

#include "base/quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool gf_raw_open(struct gf_raw_lines *lines, const char *path)
{
    lines->at = lines->held = 0;
    lines->fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return lines->fd >= 0;
}

const char *gf_raw_next(struct gf_raw_lines *lines)
{
    for (;;) {
        char *line = lines->buf + lines->at;
        char *end = memchr(line, '\n', lines->held - lines->at);
        if (end) {
            *end = '\0';
            lines->at = (size_t)(end + 1 - lines->buf);
            return line;
        }
        lines->held -= lines->at;
        memmove(lines->buf, line, lines->held);
        lines->at = 0;
        const size_t room = lines->size - 1 - lines->held;
        const ssize_t got =
            room ? syscall(SYS_read, lines->fd, lines->buf + lines->held, room) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (!lines->held)
                return NULL;
            lines->buf[lines->held] = '\0';
            lines->at = lines->held = 0;
            return lines->buf;
        }
        lines->held += (size_t)got;
    }
}

void gf_raw_close(struct gf_raw_lines *lines)
{
    syscall(SYS_close, lines->fd);
}

uint64_t gf_raw_number(const char *p)
{
    uint64_t value = 0;
    while (*p >= '0' && *p <= '9')
        value = value * 10 + (uint64_t)(*p++ - '0');
    return value;
}

int gf_raw_append(const char *path, const char *first, size_t first_length, const char *second,
                  size_t second_length)
{
    const struct iovec parts[] = {{(void *)(uintptr_t)first, first_length},
                                  {(void *)(uintptr_t)second, second_length}};
    const long fd = syscall(SYS_openat, AT_FDCWD, path,
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0)
        return -errno;
    const ssize_t written = gf_quiet_writev((int)fd, parts, 2);
    const int error = written < 0                                         ? -errno
                      : (size_t)written < first_length + second_length ? -EIO
                                                                       : 0;
    syscall(SYS_close, fd);
    return error;
}
