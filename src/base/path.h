/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_BASE_PATH_H
#define GF_BASE_PATH_H

#include "base/base.h"

#include <string.h>
#include <sys/types.h>

/* Returns the part of a path after its last slash. */
static inline const char *gf_path_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Copies a path. If the path is too long, copies its end, because the last folders say most. */
void gf_path_copy_end(const char *path, char *ret, size_t size);

/* Whether a source file of Python belongs to Python or to an installed package. */
bool gf_path_is_python_library(const char *path);

/*
 * Expands %p (pid), %h (host name, with '_' for '/'), %r (rank; 0 if rank is -1) and %% in a path.
 * Other percent signs are copied. Returns 0 or -ENAMETOOLONG. Async-signal-safe.
 */
int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size);

/*
 * Atomically replaces the content of the file at path by these bytes: a reader sees either the old
 * or the new content. If path is a symbolic link that the process's user owns, the target of the
 * link is replaced; a link of another user is itself replaced. If path is a device, a pipe or a
 * link in /dev or /proc, the bytes are appended instead. If the function fails, it removes the new
 * file. Returns 0 or -errno.
 */
int gf_path_replace(const char *path, const char *bytes, size_t length);

#endif
