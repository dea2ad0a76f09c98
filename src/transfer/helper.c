/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/helper.h"

#include "base/base.h"
#include "transfer/plant.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#define STACK ((size_t)1 << 20) /* glibc takes what the program's libraries need as TLS out of it... */
#define ROOM ((size_t)64 << 10) /* ...but not out of this, of which libc is not told: there are no guards */

struct birth {
    void *(*run)(void *);
    void *arg;
};

/*
 * Side by side and without guards all stacks are one mapping, which a fork copies once; one by one they would lie in
 * whatever holes the driver's mappings leave. What a helper does takes some KiB, and never calls the program. All or
 * none: where RLIMIT_AS, or RLIMIT_MEMLOCK behind mlockall, has less left than that, it is left to the program.
 */
static char *map_stacks(unsigned count)
{
    void *stacks = mmap(NULL, count * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return NULL;
    madvise(stacks, count * STACK, MADV_NOHUGEPAGE);
    return stacks;
}

/* stack: NULL: libc's. */
static int create_with(const struct birth *birth, bool explicit_policy, char *stack)
{
    static const struct sched_param ordinary;
    pthread_attr_t attr;
    pthread_t thread;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (stack)
        pthread_attr_setstack(&attr, stack + ROOM, STACK - ROOM);
    else
        pthread_attr_setguardsize(&attr, 0);
    if (explicit_policy) {
        pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
        pthread_attr_setschedparam(&attr, &ordinary);
    }
    error = pthread_create(&thread, &attr, birth->run, birth->arg);
    pthread_attr_destroy(&attr);
    return error;
}

static int create(const struct birth *birth, char *stack)
{
    sigset_t all, before;
    sigfillset(&all);
    if (GF_PLANTED(helpers_take_signals))
        sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = create_with(birth, true, stack);
    if (error == EPERM) /* out of SCHED_IDLE, where that is not allowed */
        error = create_with(birth, false, stack);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* How many there are. */
static unsigned start_on(char *stacks, unsigned count, const struct birth *birth, int *ret_error)
{
    unsigned started = 0;
    while (started < count && (*ret_error = create(birth, stacks ? stacks + started * STACK : NULL)) == 0)
        started++;
    return started;
}

int gf_helpers_start(unsigned count, void *(*run)(void *), void *arg)
{
    const struct birth birth = {run, arg};
    char *stacks = map_stacks(count);
    int error;

    if (!stacks)
        return errno;
    unsigned started = start_on(stacks, count, &birth, &error);
    if (started < count)
        munmap(stacks + started * STACK, (count - started) * STACK);
    if (!started && error == EINVAL) /* the program's thread-local variables take more than that */
        started = start_on(NULL, count, &birth, &error);
    return started ? 0 : error;
}
