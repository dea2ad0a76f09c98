/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/child_call.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int gf_child_call(int (*function)(void *closure), void *closure)
{
    _Alignas(16) char stack[16384];
    const int saved = errno;
    uint64_t all = ~UINT64_C(0), before;

    /*
     * All signals are blocked, so the child runs no signal handler of the program. It sends no
     * signal when it exits.
     */
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all)))
        return -errno;
    const pid_t pid = clone(function, stack + sizeof(stack), CLONE_VM | CLONE_VFORK, closure);
    const int failed = pid < 0 ? -errno : 0;
    /* A raw system call, because libc's waitpid is a cancellation point. */
    while (pid > 0 && syscall(SYS_wait4, pid, NULL, __WALL, NULL) < 0 && errno == EINTR)
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    errno = saved;
    return failed;
}
