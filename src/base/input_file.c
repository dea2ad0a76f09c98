/* SPDX-License-Identifier: Apache-2.0 */
#include "base/input_file.h"

#include "base/fmt.h"

#include <fcntl.h>
#include <sys/stat.h>

static int open_file(const char *path, int flags)
{
    const long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

/* Returns 0 if the descriptor refers to a regular file, otherwise -errno. */
static int check_type(int name)
{
    struct stat found;

    if (syscall(SYS_newfstatat, name, "", &found, AT_EMPTY_PATH))
        return -errno;
    return S_ISREG(found.st_mode) ? 0 : S_ISDIR(found.st_mode) ? -EISDIR : -EINVAL;
}

int gf_input_open(const char *path)
{
    const int name = open_file(path, O_PATH);
    char again[48];

    if (name < 0)
        return name;
    gf_fmt(again, sizeof(again), "/proc/thread-self/fd/%d", name);
    int result = check_type(name);
    if (!result)
        result = open_file(again, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    syscall(SYS_close, name);
    return result;
}
