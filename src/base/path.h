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
 * Expands %p (pid), %h (host name, with '_' for '/' and for a '.' at
 * its begin), %r (rank; 0 if rank is -1) and %% in a path.
 * Other percent signs are copied. Returns 0 or -ENAMETOOLONG. Async-signal-safe.
 */
int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size);

#endif
