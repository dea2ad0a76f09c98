/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose file is named like CPython's own. As there, one function reads a file by read,
 * whose pointer the loader resolves at the first call.
 */
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t file_read(int fd, void *to, size_t bytes);

ssize_t file_read(int fd, void *to, size_t bytes)
{
    return read(fd, to, bytes);
}
