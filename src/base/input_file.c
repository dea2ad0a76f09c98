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

static bool is_trusted_pipe(int name, const struct stat *found)
{
    struct statfs system;

    return S_ISFIFO(found->st_mode) &&
           (found->st_uid == 0 || found->st_uid == geteuid() ||
            (syscall(SYS_fstatfs, name, &system) == 0 && system.f_type == PIPEFS_MAGIC));
}

/* Returns the flags to open the file again, or -errno. */
static int check_type(int name, bool pipes)
{
    struct stat found;

    if (syscall(SYS_newfstatat, name, "", &found, AT_EMPTY_PATH))
        return -errno;
    if (pipes && is_trusted_pipe(name, &found))
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
    int result = check_type(name, pipes);
    if (result >= 0)
        result = open_file(again, result);
    syscall(SYS_close, name);
    return result;
}

int gf_input_open(const char *path)
{
    return open_checked(path, false);
}

int gf_input_open_or_pipe(const char *path)
{
    return open_checked(path, true);
}
