/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls hooked functions of libc under a seccomp filter that permits only the system calls that they
 * make without the library. Any other call kills the process.
 */
#include "sandbox.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static cpu_set_t mask;

static void *run(void *arg)
{
    free(malloc(100));
    printf("thread %d\n", pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask));
    return arg;
}

int main(void)
{
    static char page[4096];
    const struct rlimit core = {0};
    pthread_t thread;
    pid_t child;

    setvbuf(stdout, NULL, _IONBF, 0);
    free(malloc(1)); /* the heap reads files when it starts */
    sched_getaffinity(0, sizeof(mask), &mask);
    SANDBOX_ALLOW(SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_futex,
                  SYS_getrandom, SYS_write, SYS_exit, SYS_exit_group, SYS_clone3, SYS_clone,
                  SYS_rseq, SYS_set_robust_list, SYS_rt_sigaction, SYS_rt_sigprocmask,
                  SYS_sched_setaffinity, SYS_prlimit64, SYS_mlock, SYS_prctl, SYS_wait4, SYS_execve
#ifdef SYS_vfork
                  ,
                  SYS_vfork
#endif
    );
    printf("mask %d\n", sched_setaffinity(0, sizeof(mask), &mask));
    printf("own %d\n", pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask));
    printf("limit %d\n", setrlimit(RLIMIT_CORE, &core));
    printf("lock %d\n", mlock(page, 1));
    printf("privileges %d\n", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    const int error = pthread_create(&thread, NULL, run, NULL);
    printf("create %d, join %d\n", error, error ? error : pthread_join(thread, NULL));
    child = vfork();
    if (child == 0) {
        execl("/no/such/program", "program", (char *)NULL);
        _exit(3);
    }
    printf("wait %d\n", waitpid(child, NULL, 0) == child);
    return 0;
}
