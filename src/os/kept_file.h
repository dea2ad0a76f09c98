/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of /proc or of a control group that stays open. Opening it at each use could take a
 * descriptor number that the program is about to use, and a seccomp filter could kill the process.
 * The program may close the descriptor or reuse its number, so each use compares the file's
 * identity first.
 */
#ifndef GF_OS_KEPT_FILE_H
#define GF_OS_KEPT_FILE_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/types.h>

struct gf_kept_file {
    const char *path;
    bool everywhere; /* the descriptor is also valid in a forked child */
    _Atomic int fd;  /* -1 if not open */
    _Atomic pid_t process;
    _Atomic uint64_t device, inode;
    atomic_flag opening;
};

#define GF_KEPT_FILE(file)                                                                         \
    {                                                                                              \
        .path = (file), .fd = -1, .opening = ATOMIC_FLAG_INIT                                      \
    }

/*
 * Opens the file, unless it is open. The descriptor's number is high, but below FD_SETSIZE and the
 * limit of open files. Call it within cuInit, where the driver opens files as well, or in a process
 * with one thread. Any thread. Keeps errno.
 */
void gf_kept_file_open(struct gf_kept_file *file);

/*
 * Returns the descriptor if it still refers to the file that was opened, otherwise -1. Also -1 in a
 * forked child, unless `everywhere` is set: a file of /proc/self still refers to the parent. The
 * program may replace the file at any time. So use the descriptor only for calls that are harmless
 * on any file, such as pread. Any thread. Keeps errno.
 */
int gf_kept_file_get(const struct gf_kept_file *file);

#endif
