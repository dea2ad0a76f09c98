/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of sched_setaffinity and pthread_setaffinity_np, which pass the calls through.
 * Successful calls are recorded, because the library never binds a thread whose mask the program
 * has set.
 */
#include "config/startup_env.h"
#include "preload/hook/counters.h"
#include "preload/hook/hook_thread.h"
#include "preload/hook/originals/originals.h"
#include "preload/hook/thread_class.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Uses a raw system call, because another preloaded library may wrap libc's function. Returns false
 * on failure.
 */
static bool read_affinity(pid_t tid, struct gf_cpus *ret)
{
    const int error = errno;
    memset(ret, 0, sizeof(*ret));
    const bool known = syscall(SYS_sched_getaffinity, tid, sizeof(*ret), ret) > 0;
    errno = error;
    return known;
}

/*
 * Whether the program makes this call. Also records the start mask, before the call can change it.
 */
static bool is_programs_call(void)
{
    gf_startup_env();
    return !gf_thread.guard && !gf_thread.ours && !gf_thread.in_driver;
}

static void record_change(pid_t tid, const struct gf_cpus *before)
{
    const int error = errno;
    struct gf_cpus after;
    if (read_affinity(tid, &after))
        gf_thread_class_affinity(tid, before, &after);
    errno = error;
}

int gf_on_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
    struct gf_cpus before;
    const pid_t tid = pid ? pid : gettid();

    gf_count(gf_hook_sched_setaffinity);
    const bool known = is_programs_call() && read_affinity(tid, &before);
    const int result = gf_originals()->sched_setaffinity(pid, size, mask);
    if (result == 0 && known)
        record_change(tid, &before);
    return result;
}

/*
 * Returns a thread's id, which is a part of the thread's clock id. glibc before 2.42 has no
 * function that returns it.
 */
static pid_t thread_id(pthread_t thread)
{
    clockid_t clock;
    if (pthread_equal(thread, pthread_self()))
        return gettid();
    return pthread_getcpuclockid(thread, &clock) == 0 ? ~(clock >> 3) : 0;
}

int gf_on_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *mask)
{
    struct gf_cpus before;
    const pid_t tid = is_programs_call() ? thread_id(thread) : 0;

    gf_count(gf_hook_pthread_setaffinity_np);
    const bool known = tid > 0 && read_affinity(tid, &before);
    const int error = gf_originals()->pthread_setaffinity_np(thread, size, mask);
    if (error == 0 && known)
        record_change(tid, &before);
    return error;
}
