/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sysfile.h"

#include "base/fmt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By number: libc's own are cancellation points, and malloc, which reads these too, is none. */
static int read_whole(int fd, char *buf, size_t size)
{
    size_t at = 0;
    while (at + 1 < size) {
        const ssize_t got = syscall(SYS_read, fd, buf + at, size - 1 - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        at += (size_t)got;
    }
    while (at && (buf[at - 1] == '\n' || buf[at - 1] == ' ' || buf[at - 1] == '\t'))
        at--;
    buf[at] = '\0';
    return (int)at;
}

int gf_sysfile_read(char *buf, size_t size, const char *root, const char *format, ...)
{
    char path[GF_SYSFILE_PATH_MAX];
    const int prefix = gf_fmt(path, sizeof(path), "%s/", root ? root : "");
    va_list args;

    buf[0] = '\0';
    if ((size_t)prefix >= sizeof(path))
        return -ENAMETOOLONG;
    va_start(args, format);
    const int length = gf_vfmt(path + prefix, sizeof(path) - (size_t)prefix, format, args);
    va_end(args);
    if ((size_t)(prefix + length) >= sizeof(path))
        return -ENAMETOOLONG;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int got = read_whole(fd, buf, size);
    syscall(SYS_close, fd);
    return got;
}

int gf_sysfile_cpus(struct gf_cpus *ret, const char *root, const char *path)
{
    char text[4096];
    const int length = gf_sysfile_read(text, sizeof(text), root, "%s", path);
    return length < 0 ? length : gf_set_parse(text, ret);
}

int gf_sysfile_nodes(struct gf_nodes *ret, const char *root, const char *path)
{
    char text[4096];
    const int length = gf_sysfile_read(text, sizeof(text), root, "%s", path);
    return length < 0 ? length : gf_set_parse(text, ret);
}

const char *gf_sysfile_field(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " \t");
    }
    return NULL;
}

uint64_t gf_sysfile_value(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    }
    return 0;
}
