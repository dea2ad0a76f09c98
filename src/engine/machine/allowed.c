/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/allowed.h"

#include "engine/machine/tasks.h"
#include "os/permit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct query {
    struct gf_cpus allowed;
    int error;
};

/*
 * Runs in a child process that shares the caller's memory, while the caller waits. Makes only
 * system calls.
 */
static int query_in_child(void *arg)
{
    struct query *query = arg;
    struct gf_cpus all;

    memset(&all, 0xff, sizeof(all));
    query->error = gf_tasks_set_mask(0, &all);
    if (!query->error)
        query->error = gf_tasks_get_mask(0, &query->allowed);
    return 0;
}

int gf_allowed_cpus(struct gf_cpus *ret)
{
    _Alignas(16) char stack[16384];
    /*
     * Some tools replace the clone by a fork. Then the child writes to its own copy of `query`, and
     * this initial value of the error remains.
     */
    struct query query = {.error = -EAGAIN};
    const int saved = errno;
    uint64_t all = ~UINT64_C(0), before;

    if (!gf_permit(gf_permit_set_affinity))
        return -EPERM;
    /*
     * All signals are blocked, so the child runs no signal handler of the program. No signal is
     * sent to the parent when the child exits.
     */
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all)))
        return -errno;
    const pid_t pid = clone(query_in_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, &query);
    const int failed = pid < 0 ? -errno : 0;
    /* The system call is made directly, because libc's waitpid is a cancellation point. */
    while (pid > 0 && syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    errno = saved;
    if (failed || query.error)
        return failed ? failed : query.error;
    *ret = query.allowed;
    return 0;
}
