/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread ids in a child of vfork, which runs in its parent's memory, with the parent's
 * thread-local variables.
 */
#ifndef GF_OS_THREAD_ID_H
#define GF_OS_THREAD_ID_H

#include "base/base.h"

#include <pthread.h>
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

#endif
