/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_OBSERVE_PATH_H
#define GF_OBSERVE_PATH_H

#include "base/base.h"

#include <sys/types.h>

/*
 * Expands %p (pid), %h (host name, '/' made '_'), %r (rank; 0 when -1) and %% in a path; other percent signs
 * stand. 0 or -ENAMETOOLONG. Async-signal-safe.
 */
int gf_path_expand(const char *pattern, pid_t pid, int rank, char *ret, size_t size);

/*
 * Replaces the file at path by these bytes: whoever reads it sees the old or the new as a whole. A
 * link at path is replaced, never followed; a device, a pipe and what /dev and /proc link to are
 * appended to. Leaves no descriptor behind, and on failure no file. 0 or -errno.
 */
int gf_path_replace(const char *path, const char *bytes, size_t length);

#endif
