/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pool/realtime.h"

#include "os/permit.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux's SCHED_DEADLINE, which libc's headers may lack. */
#define DEADLINE 6

static bool read_policy(void)
{
    const long policy = syscall(SYS_sched_getscheduler, 0);
    const long kind = policy < 0 ? SCHED_OTHER : policy & ~(long)SCHED_RESET_ON_FORK;
    return kind == SCHED_FIFO || kind == SCHED_RR || kind == DEADLINE;
}

bool gf_is_realtime(void)
{
    static __thread bool last;

    if (gf_permit(gf_permit_priority))
        last = read_policy();
    return last;
}
