/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread ids and their number. A child of vfork runs in its parent's memory, with the parent's
 * thread-local variables.
 */
#ifndef GF_OS_THREAD_ID_H
#define GF_OS_THREAD_ID_H

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Returns the thread id in libc's thread descriptor; 0 if unknown. That id is the id of the calling
 * thread or, in a child of vfork, of the thread that called vfork. A thread's clock id contains
 * this id.
 */
static inline pid_t gf_descriptor_id(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

/*
 * Whether thread-local variables are the calling thread's own. If false, nothing that the calling
 * thread learns about itself may be stored in them.
 */
static inline bool gf_thread_is_own(void)
{
    return gf_descriptor_id() == syscall(SYS_gettid);
}

/*
 * Whether the kernel counts one thread in this process. The directory of a process's threads has a
 * link for each thread, and two more; asking for this number needs no descriptor. False if it is
 * unknown. Keeps errno.
 */
static inline bool gf_thread_is_only_one(void)
{
    struct stat task;
    const int error = errno;
    const bool ret =
        syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &task, 0) == 0 && task.st_nlink == 3;
    errno = error;
    return ret;
}

#endif
