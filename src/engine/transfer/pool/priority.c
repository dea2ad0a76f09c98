/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pool/priority.h"

#include "base/atomic.h"
#include "base/log.h"
#include "os/permit.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIGH_NICE (-10)
#define REALTIME_PRIORITY 1 /* the lowest, so that every other real-time thread comes first */

static int set_priority(enum gf_helper_priority priority)
{
    static const struct sched_param lowest = {.sched_priority = REALTIME_PRIORITY};

    if (!gf_permit(gf_permit_priority))
        return EPERM;
    /* Raw system calls with the id 0 change only the calling thread. */
    const long result = priority == gf_helper_priority_high
                            ? syscall(SYS_setpriority, PRIO_PROCESS, 0, HIGH_NICE)
                            : syscall(SYS_sched_setscheduler, 0, SCHED_RR, &lowest);
    return result < 0 ? errno : 0;
}

int gf_priority_apply(enum gf_helper_priority priority)
{
    return priority == gf_helper_priority_normal ? 0 : set_priority(priority);
}

void gf_priority_warn(enum gf_helper_priority priority, int error)
{
    static _Atomic bool warned;

    if (error && !gf_exchange_relaxed(&warned, true))
        gf_warn("GPUFEED_HELPER_PRIORITY=%s has no effect: %s",
                priority == gf_helper_priority_high ? "high" : "realtime", strerrordesc_np(error));
}
