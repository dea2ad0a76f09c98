/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of /proc or of a control group that stays open. If the library opened the file at each
 * use, it could take a descriptor number that the program is about to use, and a seccomp filter
 * could kill the process. The program may close the descriptor or reuse its number, so each use
 * first compares the file's identity.
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
 * Opens the file, unless it is open. The descriptor's number is high. If the limit of open files is
 * too low, the file is not kept. This function must be called within cuInit, where the driver opens files as
 * well, or while the process has one thread. Keeps errno.
 */
void gf_kept_file_open(struct gf_kept_file *file);

/*
 * Returns the descriptor if it still refers to the file that was opened, otherwise -1. Unless
 * `everywhere` is set, returns -1 in a forked child, because an open file of /proc/self describes
 * the parent there. The program may replace the descriptor's file at any time, so use the
 * descriptor only for calls that are harmless on any file, such as pread. May be called on any
 * thread. Keeps errno.
 */
int gf_kept_file_get(const struct gf_kept_file *file);

#endif
