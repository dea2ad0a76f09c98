/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 20.0 /* seconds for one question, which normally takes microseconds */

void *child_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns true if the child has ended, and false if it made no progress and was killed. */
static bool await(pid_t pid, const volatile size_t *next)
{
    size_t seen = *next;
    double since = now();

    for (;;) {
        const struct timespec pause = {0, 1000000};
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return true;
        if (*next != seen) {
            seen = *next;
            since = now();
        }
        if (now() - since > PATIENCE) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return false;
        }
        nanosleep(&pause, NULL);
    }
}

static void answer_all(child_ask *ask, size_t count, char *answers, size_t answer_size,
                       volatile size_t *next)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    const struct rlimit none = {0, 0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        signal(fatal[i], SIG_DFL); /* the test program's handlers are reset in the child */
    for (; *next < count; ++*next)
        ask(*next, answers + *next * answer_size);
    _exit(0);
}

void child_run(child_ask *ask, size_t count, void *answers, size_t answer_size,
               struct child_outcome *ret)
{
    volatile size_t *next = child_memory(sizeof(*next));

    *ret = (struct child_outcome){.first_lost = count};
    while (*next < count) {
        const pid_t pid = fork();
        if (pid < 0)
            abort();
        if (pid == 0)
            answer_all(ask, count, answers, answer_size, next);
        const bool ended = await(pid, next);
        if (*next >= count)
            break;
        ret->first_lost = ret->first_lost == count ? *next : ret->first_lost;
        ret->crashed += ended;
        ret->hung += !ended;
        ++*next;
    }
    ret->answered = count - ret->crashed - ret->hung;
    munmap((void *)(size_t)next, sizeof(*next));
}
