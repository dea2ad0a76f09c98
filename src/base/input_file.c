/* SPDX-License-Identifier: Apache-2.0 */
#include "base/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int gf_input_open(const char *path)
{
    struct stat before, after;
    const int name = open(path, O_PATH | O_CLOEXEC);

    if (name < 0)
        return -errno;
    const bool known = fstat(name, &before) == 0;
    close(name);
    if (!known || !S_ISREG(before.st_mode))
        return known && S_ISDIR(before.st_mode) ? -EISDIR : -EINVAL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &after) == 0 && after.st_dev == before.st_dev && after.st_ino == before.st_ino)
        return fd;
    close(fd);
    return -EAGAIN;
}
