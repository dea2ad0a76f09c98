/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of /proc or of a control group that stays open. If it were opened at each use, it could
 * take a number that the program is about to use, and a seccomp filter could kill the process. The
 * program may close the number or give it to another file, so each use compares the file first.
 */
#ifndef GF_OS_KEPT_FILE_H
#define GF_OS_KEPT_FILE_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/types.h>

struct gf_kept_file {
    const char *path;
    bool everywhere; /* the file means the same in a forked child */
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
 * Opens the file, unless it is open. Its number is high, but below FD_SETSIZE and below the limit
 * of open files. Meant for cuInit, in which the driver opens files too, and for a process with one
 * thread. Any thread. Keeps errno.
 */
void gf_kept_file_open(struct gf_kept_file *file);

/*
 * Returns the descriptor if it still refers to the file that was opened, otherwise -1. Also -1 in a
 * forked child for a file of /proc/self, which is the parent's there. The program may replace the
 * file at any time, so use the descriptor only for calls that are harmless on any file: pread, or
 * an ioctl that only this kind of file has. Any thread. Keeps errno.
 */
int gf_kept_file_get(const struct gf_kept_file *file);

#endif
