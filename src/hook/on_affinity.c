/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_setaffinity and pthread_setaffinity_np: passed through unchanged; a success is noted, for
 * whoever sets its own mask is left alone.
 */
#include "config/birth.h"
#include "hook/classes.h"
#include "hook/counters.h"
#include "hook/originals.h"
#include "hook/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* By number: another preload's wrapper is not asked. False when there is nothing to note. */
static bool read_mask(pid_t tid, struct gf_cpus *ret)
{
    const int error = errno;
    memset(ret, 0, sizeof(*ret));
    const bool known = syscall(SYS_sched_getaffinity, tid, sizeof(*ret), ret) > 0;
    errno = error;
    return known;
}

/* Also the last moment to record the mask that the process was born with. */
static bool is_the_programs(void)
{
    gf_birth();
    return !gf_thread.guard && !gf_thread.ours && !gf_thread.in_driver;
}

static void note(pid_t tid, const struct gf_cpus *before)
{
    const int error = errno;
    struct gf_cpus after;
    if (read_mask(tid, &after))
        gf_classes_affinity(tid, before, &after);
    errno = error;
}

GF_EXPORT int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    struct gf_cpus before;
    const pid_t tid = pid ? pid : gettid();

    gf_count(gf_hook_sched_setaffinity);
    const bool known = is_the_programs() && read_mask(tid, &before);
    const int result = gf_originals()->sched_setaffinity(pid, size, mask);
    if (result == 0 && known)
        note(tid, &before);
    return result;
}

/* The clock id of a thread is made of its thread id; glibc has no other way to it before 2.42. */
static pid_t thread_id(pthread_t thread)
{
    clockid_t clock;
    if (pthread_equal(thread, pthread_self()))
        return gettid();
    return pthread_getcpuclockid(thread, &clock) == 0 ? ~(clock >> 3) : 0;
}

GF_EXPORT int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    struct gf_cpus before;
    const pid_t tid = is_the_programs() ? thread_id(thread) : 0;

    gf_count(gf_hook_pthread_setaffinity_np);
    const bool known = tid > 0 && read_mask(tid, &before);
    const int error = gf_originals()->pthread_setaffinity_np(thread, size, mask);
    if (error == 0 && known)
        note(tid, &before);
    return error;
}
