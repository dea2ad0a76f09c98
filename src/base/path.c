/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/clock.h"
#include "base/fmt.h"
#include "base/safe_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

void gf_path_copy_end(const char *path, char *ret, size_t size)
{
    const size_t length = strlen(path);
    gf_fmt(ret, size, "%s", length < size ? path : path + (length - size + 1));
}

bool gf_path_is_python_library(const char *path)
{
    return strstr(path, "/site-packages/") || strstr(path, "/dist-packages/") ||
           strstr(path, "/lib/python3") || strncmp(path, "<frozen", 7) == 0;
}

int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size)
{
    struct utsname host;
    size_t at = 0;

    if (uname(&host) != 0)
        memcpy(host.nodename, "localhost", sizeof("localhost"));
    /*
     * A host name may contain any byte. A '/' in it is replaced, so that it does not name another
     * folder.
     */
    for (char *slash; (slash = strchr(host.nodename, '/'));)
        *slash = '_';
    for (const char *p = pattern; *p && at < size; p++) {
        const char kind = (char)(*p == '%' ? p[1] : '\0');
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

#define LINKS_MOST 40 /* the same limit as the kernel's MAXSYMLINKS */

static int write_whole(int fd, const char *bytes, size_t length)
{
    while (length) {
        const ssize_t written = gf_safe_write(fd, bytes, length);
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
 * Whether path is a device, a pipe, or a link in /dev or /proc, such as /dev/stdout. Renaming a
 * file to such a path would destroy it for all its users. A link elsewhere counts only if root owns
 * it and it leads to a device or a pipe. A link of the process's user does not count, because the
 * caller follows it. A link of any other user does not count: the caller would write through it,
 * and that user may have pointed it at a device that only this process may write.
 */
static bool is_special(const char *path)
{
    struct stat found;

    if (begins(path, "/proc/"))
        return true;
    if (lstat(path, &found) != 0)
        return false;
    if (!S_ISLNK(found.st_mode))
        return !S_ISREG(found.st_mode);
    if (begins(path, "/dev/") && !begins(path, "/dev/shm/"))
        return true;
    return found.st_uid == 0 && geteuid() != 0 && stat(path, &found) == 0 &&
           !S_ISREG(found.st_mode);
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
 * Creates a new file in the folder of path, and sets ret to its path. Returns a descriptor or
 * -errno. The name contains the time in nanoseconds, so another user cannot guess it, and a process
 * with the same pid in another container gets another name.
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

/*
 * If the path in ret is a symbolic link, replaces the path by the target of the link. Returns false
 * if the path is not a link, if another user owns the link, or if the new path would be too long.
 */
static GF_COLD bool follow_own_link(char *ret, size_t size)
{
    struct stat found;
    char target[PATH_MAX];

    if (lstat(ret, &found) != 0 || !S_ISLNK(found.st_mode) || found.st_uid != geteuid())
        return false;
    const ssize_t length = readlink(ret, target, sizeof(target) - 1);
    const char *slash = strrchr(ret, '/');
    if (length <= 0)
        return false;
    target[length] = '\0';
    const size_t folder = target[0] == '/' || !slash ? 0 : (size_t)(slash - ret) + 1;
    if (folder + (size_t)length >= size)
        return false;
    memcpy(ret + folder, target, (size_t)length + 1);
    return true;
}

int gf_path_replace(const char *path, const char *bytes, size_t length)
{
    char place[PATH_MAX], beside[PATH_MAX];
    if ((size_t)gf_fmt(place, sizeof(place), "%s", path) >= sizeof(place))
        return -ENAMETOOLONG;
    for (unsigned links = 0; !is_special(place) && follow_own_link(place, sizeof(place)); links++)
        if (links == LINKS_MOST)
            return -ELOOP;
    if (is_special(place))
        return write_special(place, bytes, length);
    const int fd = open_beside(place, beside, sizeof(beside));
    if (fd < 0)
        return fd;
    int error = write_whole(fd, bytes, length);
    if (close(fd) != 0 && !error)
        error = -errno;
    if (!error && rename(beside, place) != 0)
        error = -errno;
    if (error)
        unlink(beside);
    return error;
}
