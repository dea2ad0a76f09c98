/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_BASE_PATH_H
#define GF_BASE_PATH_H

#include "base/base.h"

#include <string.h>
#include <sys/types.h>

/* The part of a path behind its last slash. */
static inline const char *gf_path_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/*
 * Expands %p (pid), %h (host name, with '_' for '/'), %r (rank; 0 if rank is -1) and %% in a path.
 * Other percent signs are copied. Returns 0 or -ENAMETOOLONG. Async-signal-safe.
 */
int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size);

/*
 * Replaces the file at path by these bytes atomically: a reader sees either the old or the new
 * content. A link at path is followed if the process's user owns it, otherwise replaced. To
 * devices, pipes and the targets of links in /dev and /proc, the bytes are appended. On failure the
 * new file is removed. Returns 0 or -errno.
 */
int gf_path_replace(const char *path, const char *bytes, size_t length);

#endif
