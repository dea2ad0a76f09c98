/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of paths; writes that raise no signal. */
#pragma once

#include "base/base.h"

#include <sys/uio.h>

/* Returns the part of a path after its last slash. */
static inline const char *gf_path_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Copies a path. If the path is too long, copies its end, because the last folders say most. */
void gf_path_copy_end(const char *path, char *ret, size_t size);

/* Whether a source file of Python belongs to Python or to a package, or a compiler wrote it. */
bool gf_path_is_python_library(const char *path);

/*
 * Expands %p (pid), %h (host name, with '_' for '/' and for a '.' at
 * its begin), %r (rank; 0 if rank is -1) and %% in a path.
 * Other percent signs are copied. Returns 0 or -ENAMETOOLONG. Async-signal-safe.
 */
int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size);

/*
 * Writes that raise no signal. A plain write raises SIGPIPE if a pipe has no reader, and SIGXFSZ if
 * a file is at its size limit (ulimit -f). Either signal could end the program. The functions below
 * return an error instead. SIGTTOU would stop a process in the background (stty tostop). The kernel writes
 * if the signal is blocked.
 */

/*
 * Like writev, but not a cancellation point. It may be called on any thread, inside malloc and in a
 * forked child.
 */
ssize_t gf_safe_writev(int fd, const struct iovec *parts, int count);

static inline ssize_t gf_safe_write(int fd, const void *bytes, size_t length)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, length};
    return gf_safe_writev(fd, &part, 1);
}
