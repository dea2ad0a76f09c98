/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_TRANSFER_POOL_REALTIME_H
#define GF_ENGINE_TRANSFER_POOL_REALTIME_H

#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux's SCHED_DEADLINE, which libc's headers may lack. */
#define GF_SCHED_DEADLINE 6

/*
 * Whether the calling thread has a real-time policy. Helpers are ordinary threads. While real-time
 * threads keep all CPUs busy, a helper cannot finish a piece that it has begun. A real-time caller
 * could then wait for that helper forever. So the copies of such a caller are left to the driver,
 * and the caller does the pieces of its other jobs alone.
 */
static inline bool gf_is_realtime(void)
{
    const long policy = syscall(SYS_sched_getscheduler, 0);
    const long kind = policy < 0 ? SCHED_OTHER : policy & ~(long)SCHED_RESET_ON_FORK;
    return kind == SCHED_FIFO || kind == SCHED_RR || kind == GF_SCHED_DEADLINE;
}

#endif
