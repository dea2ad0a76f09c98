/* SPDX-License-Identifier: Apache-2.0 */
#include "base/input_file.h"

#include "base/fmt.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static int open_file(const char *path, int flags)
{
    const long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static bool is_trusted_owner(const struct stat *found)
{
    return found->st_uid == 0 || found->st_uid == geteuid();
}

/*
 * Whether the path names this pipe itself, or is a link of root or of the process's user. Another
 * user may have planted a link, or a second name, of a pipe whose bytes a service waits for.
 */
static bool is_own_name(const char *path, const struct stat *pipe)
{
    struct stat found;

    if (pipe->st_nlink > 1 || syscall(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW))
        return false;
    return S_ISLNK(found.st_mode) ? is_trusted_owner(&found)
                                  : found.st_dev == pipe->st_dev && found.st_ino == pipe->st_ino;
}

static bool is_trusted_pipe(const char *path, int name, const struct stat *found)
{
    struct statfs system;

    return S_ISFIFO(found->st_mode) &&
           ((is_trusted_owner(found) && is_own_name(path, found)) ||
            (syscall(SYS_fstatfs, name, &system) == 0 && system.f_type == PIPEFS_MAGIC));
}

/* Returns the flags to open the file again, or -errno. */
static int check_type(const char *path, int name, bool pipes)
{
    struct stat found;

    if (syscall(SYS_newfstatat, name, "", &found, AT_EMPTY_PATH))
        return -errno;
    if (pipes && is_trusted_pipe(path, name, &found))
        return O_RDONLY;
    return S_ISREG(found.st_mode)   ? O_RDONLY | O_NONBLOCK | O_NOCTTY
           : S_ISDIR(found.st_mode) ? -EISDIR
                                    : -EINVAL;
}

static int open_checked(const char *path, bool pipes)
{
    const int name = open_file(path, O_PATH);
    char again[48];

    if (name < 0)
        return name;
    gf_fmt(again, sizeof(again), "/proc/thread-self/fd/%d", name);
    int result = check_type(path, name, pipes);
    if (result >= 0)
        result = open_file(again, result);
    syscall(SYS_close, name);
    return result;
}

int gf_input_open_any(const char *path)
{
    return open_checked(path, false);
}

int gf_input_open(const char *path)
{
    const int fd = gf_input_open_any(path);
    struct statfs system;

    /* fstatfs may fail for a file system of FUSE, but not for one of the kernel's. */
    if (fd < 0 || syscall(SYS_fstatfs, fd, &system) ||
        (system.f_type != PROC_SUPER_MAGIC && system.f_type != SYSFS_MAGIC &&
         system.f_type != EFIVARFS_MAGIC && system.f_type != TRACEFS_MAGIC &&
         system.f_type != DEBUGFS_MAGIC))
        return fd;
    syscall(SYS_close, fd);
    return -EINVAL;
}

int gf_input_open_or_pipe(const char *path)
{
    return open_checked(path, true);
}
