/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/path.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size)
{
    struct utsname host;
    size_t at = 0;

    if (uname(&host) != 0)
        memcpy(host.nodename, "localhost", sizeof("localhost"));
    /* A name may hold any byte, and shall lead to no other folder. */
    for (char *slash; (slash = strchr(host.nodename, '/'));)
        *slash = '_';
    for (const char *p = pattern; *p && at < size; p++) {
        const char kind = *p == '%' ? p[1] : '\0';
        if (kind == 'p')
            at += (size_t)gf_fmt(ret + at, size - at, "%d", pid);
        else if (kind == 'h')
            at += (size_t)gf_fmt(ret + at, size - at, "%s", host.nodename);
        else if (kind == 'r')
            at += (size_t)gf_fmt(ret + at, size - at, "%d", gf_max(rank, 0));
        else
            ret[at++] = *p;
        if (kind == 'p' || kind == 'h' || kind == 'r' || kind == '%')
            p++;
    }
    if (at >= size)
        return -ENAMETOOLONG;
    ret[at] = '\0';
    return 0;
}

static int write_whole(int fd, const char *bytes, size_t length)
{
    while (length) {
        const ssize_t written = gf_quiet_write(fd, bytes, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

static bool begins(const char *path, const char *with)
{
    return strncmp(path, with, strlen(with)) == 0;
}

/*
 * Renaming over /dev/null, a pipe, or the links /dev/stdout and /proc/self/fd/1 would take them from
 * everybody, also where they lead to a regular file just now.
 */
static bool is_special(const char *path)
{
    struct stat found;

    if (begins(path, "/proc/"))
        return true;
    if (begins(path, "/dev/") && !begins(path, "/dev/shm/") && lstat(path, &found) == 0 &&
        S_ISLNK(found.st_mode))
        return true;
    return stat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

static int write_special(const char *path, const char *bytes, size_t length)
{
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    const int error = write_whole(fd, bytes, length);
    close(fd);
    return error;
}

/*
 * A new file in the folder of path; its own name says nothing that somebody else could lay a link
 * under, and a process with our number in another container takes another one. A descriptor or
 * -errno; ret holds the file's path.
 */
static int open_beside(const char *path, char *ret, size_t size)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;

    for (unsigned tries = 0; tries < 8; tries++) {
        const int needed = gf_fmt(ret, size, "%.*s.gpufeed-%d-%08x", folder, path, getpid(),
                                  (unsigned)gf_now_ns() + tries);
        if ((size_t)needed >= size)
            return -ENAMETOOLONG;
        const int fd = open(ret, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

int gf_path_replace(const char *path, const char *bytes, size_t length)
{
    char beside[PATH_MAX];
    if (is_special(path))
        return write_special(path, bytes, length);
    const int fd = open_beside(path, beside, sizeof(beside));
    if (fd < 0)
        return fd;
    int error = write_whole(fd, bytes, length);
    if (close(fd) != 0 && !error)
        error = -errno;
    if (!error && rename(beside, path) != 0)
        error = -errno;
    if (error)
        unlink(beside);
    return error;
}
