/* SPDX-License-Identifier: Apache-2.0 */
/* Files kept open, replaced files, files taken from the program, and where files are. */
#pragma once

#include "base/base.h"
#include "base/output_file.h"

#include <stdatomic.h>

/*
 * A file of /proc or of a control group that stays open. If the library opened the file at each
 * use, it could take a descriptor number that the program is about to use, and a seccomp filter
 * could kill the process. The program may close the descriptor or reuse its number, so each use
 * first compares the file's identity.
 */

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

/* Closes the descriptor of a file of /proc/self in a forked child, to which it would show the parent. */
void gf_kept_file_close_in_child(struct gf_kept_file *file);

/*
 * Returns the descriptor if it still refers to the file that was opened, otherwise -1. Unless
 * `everywhere` is set, returns -1 in a forked child, because an open file of /proc/self describes
 * the parent there. The program may replace the descriptor's file at any time, so use the
 * descriptor only for calls that are harmless on any file, such as pread. May be called on any
 * thread. Keeps errno.
 */
int gf_kept_file_get(const struct gf_kept_file *file);

/*
 * Writes and removes files that the user named. A thread with its own descriptor table writes them,
 * so that the program's descriptors stay as they are. The functions wait for the disk.
 */

/*
 * Calls gf_output_replace_seen (base/output_file.h). Without bytes, removes a regular file; if the path is a
 * symbolic link, empties the target instead. Returns 0 or -errno.
 */
int gf_replace_file(const char *path, const char *bytes, size_t length, enum gf_output_flags flags,
                    struct gf_replaced *ret);

/*
 * Takes an open file of the program into the descriptor table of a thread of the library. The
 * program may replace the descriptor at any time, but not what was taken, so one operation decides
 * which file all later calls use.
 */

/*
 * Called on a thread with its own descriptor table (os/own_table.h), for the thread `thread` of this
 * process, which waits meanwhile. Returns a descriptor of the open file that `thread` has at the
 * number `fd`, with the same offset and status. It must be closed on this thread. Closing it drops
 * no lock of the program. Returns -errno if the kernel refuses, or if `thread` does not share the
 * descriptor table of the process's first thread. Needs Linux 5.6. Changes errno.
 */
int gf_take_file(pid_t process, pid_t thread, int fd);

/*
 * False if the kernel, a filter or a sandbox forbids gf_take_file, as far as is known. May be called
 * on any thread.
 */
bool gf_take_file_is_possible(void);
