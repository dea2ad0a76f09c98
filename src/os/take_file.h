/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes an open file of the program into the descriptor table of a thread of the library. The
 * program may replace the descriptor at any time, but not what was taken, so one operation decides
 * which file all later calls use.
 */
#ifndef GF_OS_TAKE_FILE_H
#define GF_OS_TAKE_FILE_H

#include "base/base.h"

#include <sys/types.h>

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

#endif
