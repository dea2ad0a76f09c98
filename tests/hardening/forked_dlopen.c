/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while another thread is in the process's first call of dlopen, in which the library makes
 * libc's symbol table writable. A filter holds this system call until the child has called dlopen, too.
 */
#include "sandbox.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static sem_t opening, forked;

/* The system call then fails: its result is a register of its own, which is not 0. */
static void hold(int signal)
{
    static bool held;

    (void)signal;
    if (held)
        return;
    held = true;
    sem_post(&opening);
    while (sem_wait(&forked))
        ;
}

static void *open_libc(void *closure)
{
    (void)closure;
    return dlopen("libc.so.6", RTLD_NOW);
}

static void *open_under_filter(void *closure)
{
    const unsigned held = SYS_mprotect;

    free(malloc(1)); /* glibc would make an arena writable by the same system call */
    sandbox_filter(&held, 1, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
    void *const library = open_libc(closure);
    sem_post(&opening); /* without the library, no call was held */
    return library;
}

int main(void)
{
    pthread_t thread;
    int status = 0;
    void *library = NULL;

    sem_init(&opening, 0, 0);
    sem_init(&forked, 0, 0);
    signal(SIGSYS, hold);
    pthread_create(&thread, NULL, open_under_filter, NULL);
    sem_wait(&opening);
    const pid_t child = fork();
    if (child == 0)
        _exit(alarm(5) == 0 && open_libc(NULL) ? 7 : 8);
    waitpid(child, &status, 0);
    sem_post(&forked);
    pthread_join(thread, &library);
    printf("%d %d %d\n", WTERMSIG(status), WEXITSTATUS(status), library != NULL);
    return 0;
}
