/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/readahead/io_priority.h"

#include "os/permit.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in <linux/ioprio.h>, which libc's headers lack. */
#define WHO_PROCESS 1
#define CLASS_SHIFT 13
#define CLASS_REAL_TIME 1
#define CLASS_BEST_EFFORT 2
#define CLASS_IDLE 3
#define PRIORITY(class, level) ((class) << CLASS_SHIFT | (level))

/* Calculates the priority that the kernel derives in block/ioprio.c. */
static int derived_priority(void)
{
    if (syscall(SYS_sched_getscheduler, 0) == SCHED_IDLE)
        return PRIORITY(CLASS_IDLE, 7);
    return PRIORITY(CLASS_BEST_EFFORT, (getpriority(PRIO_PROCESS, 0) + 20) / 5);
}

int gf_io_priority_get(void)
{
    const int error = errno;
    const long own = gf_permit(gf_permit_io_priority) ? syscall(SYS_ioprio_get, WHO_PROCESS, 0)
                                                      : GF_IO_PRIORITY_UNKNOWN;
    const int ret = own < 0                   ? GF_IO_PRIORITY_UNKNOWN
                    : own >> CLASS_SHIFT == 0 ? derived_priority()
                                              : (int)own;
    errno = error;
    return ret;
}

bool gf_io_priority_is_for_all(int priority)
{
    return priority != GF_IO_PRIORITY_UNKNOWN && priority >> CLASS_SHIFT != CLASS_REAL_TIME;
}

bool gf_io_priority_is_ordinary(int priority)
{
    return priority == PRIORITY(CLASS_BEST_EFFORT, 4);
}

/* The calling helper's I/O priority now, and its own one. */
static __thread int now = GF_IO_PRIORITY_UNKNOWN, own = GF_IO_PRIORITY_UNKNOWN;

static void change(int priority)
{
    const int error = errno;

    if (priority != now && gf_permit(gf_permit_io_priority) &&
        syscall(SYS_ioprio_set, WHO_PROCESS, 0, priority) == 0)
        now = priority;
    errno = error;
}

bool gf_io_priority_set(int priority)
{
    if (now == GF_IO_PRIORITY_UNKNOWN)
        now = own = gf_io_priority_get();
    if (own == GF_IO_PRIORITY_UNKNOWN)
        return false;
    change(priority);
    return priority == now;
}

void gf_io_priority_restore(void)
{
    change(own);
}
