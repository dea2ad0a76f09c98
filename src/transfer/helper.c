/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/helper.h"

#include "base/base.h"
#include "transfer/plant.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

/* glibc takes what the program's libraries need as TLS out of a stack, but not out of the room, of which it is not told. */
#define STACK ((size_t)1 << 20)
#define STACK_MOST ((size_t)64 << 20)
#define ROOM ((size_t)64 << 10)

struct birth {
    void *(*run)(void *);
    void *arg;
};

/*
 * Side by side and without guards all stacks are one mapping, which a fork copies once; one by one they would lie in
 * whatever holes the driver's mappings leave. What a helper does takes some KiB, and never calls the program. All or
 * none: where RLIMIT_AS, or RLIMIT_MEMLOCK behind mlockall, has less left than that, it is left to the program.
 */
static char *map_stacks(unsigned count, size_t each)
{
    void *stacks = mmap(NULL, count * each, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return NULL;
    madvise(stacks, count * each, MADV_NOHUGEPAGE);
    return stacks;
}

static int create_with(const struct birth *birth, bool explicit_policy, char *stack, size_t bytes)
{
    static const struct sched_param ordinary;
    pthread_attr_t attr;
    pthread_t thread;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstack(&attr, stack + ROOM, bytes - ROOM);
    if (explicit_policy) {
        pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
        pthread_attr_setschedparam(&attr, &ordinary);
    }
    error = pthread_create(&thread, &attr, birth->run, birth->arg);
    pthread_attr_destroy(&attr);
    return error;
}

static int create(const struct birth *birth, char *stack, size_t bytes)
{
    sigset_t all, before;
    sigfillset(&all);
    if (GF_PLANTED(helpers_take_signals))
        sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = create_with(birth, true, stack, bytes);
    if (error == EPERM) /* out of SCHED_IDLE, where that is not allowed */
        error = create_with(birth, false, stack, bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* EINVAL: the program's thread-local variables take more than that. */
static int start_on(const struct birth *birth, unsigned count, size_t each)
{
    char *stacks = map_stacks(count, each);
    unsigned started = 0;
    int error = errno;

    if (!stacks)
        return error;
    while (started < count && (error = create(birth, stacks + started * each, each)) == 0)
        started++;
    if (started < count)
        munmap(stacks + started * each, (count - started) * each);
    return started ? 0 : error;
}

int gf_helpers_start(unsigned count, void *(*run)(void *), void *arg)
{
    const struct birth birth = {run, arg};
    int error = EINVAL;

    for (size_t each = STACK; error == EINVAL && each <= STACK_MOST; each *= 2)
        error = start_on(&birth, count, each);
    return error;
}
