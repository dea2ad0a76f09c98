/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/helper.h"

#include "base/atomic.h"
#include "base/log.h"
#include "engine/transfer/setup.h"
#include "host/mempolicy.h"
#include "os/own_table.h"
#include "os/permit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

struct start {
    void *(*run)(void *);
    void *arg;
};

/*
 * Maps all stacks or none. Adjacent stacks without guard pages form one mapping, which a fork
 * copies once. Guard pages are not needed, because a helper uses some KiB of stack: of the program's
 * code, it runs only PyTorch's loops that copy (files/pin_batch.h). If a limit allows only some of
 * the stacks (RLIMIT_AS, or RLIMIT_MEMLOCK after mlockall), none is mapped, and that memory is left to
 * the program.
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

static int create_with_policy(const struct start *start, bool explicit_policy, char *stack,
                              size_t bytes)
{
    static const struct sched_param ordinary;
    pthread_attr_t attr;
    pthread_t thread;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstack(&attr, stack, bytes);
    if (explicit_policy) {
        pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
        pthread_attr_setschedparam(&attr, &ordinary);
    }
    error = pthread_create(&thread, &attr, start->run, start->arg);
    pthread_attr_destroy(&attr);
    return error;
}

/*
 * Whether the process is a job in the background: its first thread and the calling thread have the
 * policy of such a job. The helpers then inherit the policy. If only one of the two threads has it,
 * an ordinary thread of the program might wait for a helper that gets no CPU.
 */
static bool is_background(void)
{
    const long own = syscall(SYS_sched_getscheduler, 0) & ~(long)SCHED_RESET_ON_FORK;
    return (own == SCHED_IDLE || own == SCHED_BATCH) &&
           (syscall(SYS_sched_getscheduler, getpid()) & ~(long)SCHED_RESET_ON_FORK) == own;
}

static int create_helper(const struct start *start, char *stack, size_t bytes)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* libc sets an explicit policy by sched_setscheduler, for which a filter may kill the process */
    const bool explicit_policy = gf_permit(gf_permit_priority) && !is_background();
    int error = create_with_policy(start, explicit_policy, stack, bytes);
    if (error == EPERM && explicit_policy)
        error = create_with_policy(start, false, stack, bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int gf_helpers_start(unsigned count, void *(*run)(void *), void *arg)
{
    const struct start start = {run, arg};
    const size_t each = gf_stack_size();
    char *stacks = map_stacks(count, each);
    unsigned started = 0;
    int error = errno;

    if (!stacks)
        return error;
    while (started < count && (error = create_helper(&start, stacks + started * each, each)) == 0)
        started++;
    if (started < count)
        munmap(stacks + started * each, (count - started) * each);
    return started ? 0 : error;
}

/* What helpers inherit from the thread that makes them. */
struct apart {
    const struct start *start;
    unsigned count;
    bool *ret_apart;
    bool has_policy;
    int mode;
    struct gf_nodes nodes;
    int error;
};

static void start_apart(void *closure)
{
    struct apart *s = closure;
    struct gf_nodes nodes;
    int mode;

    if (gf_setup.thread_allocates)
        gf_setup.thread_allocates();
    if (s->has_policy && gf_mempolicy_read(&mode, &nodes) &&
        (mode != s->mode || !gf_set_equal(&nodes, &s->nodes)))
        gf_mempolicy_set(s->mode, &s->nodes);
    *s->ret_apart = true;
    s->error = gf_helpers_start(s->count, s->start->run, s->start->arg);
}

int gf_helpers_start_apart(unsigned count, void *(*run)(void *), void *arg, bool *ret_apart)
{
    const struct start start = {run, arg};
    struct apart s = {.start = &start, .count = count, .ret_apart = ret_apart};

    s.has_policy = gf_mempolicy_read(&s.mode, &s.nodes);
    return gf_own_table_run_on_server(start_apart, &s) ? s.error
                                                       : gf_helpers_start(count, run, arg);
}

#define HIGH_NICE (-10)
#define REALTIME_PRIORITY 1 /* the lowest, so that every other real-time thread comes first */

int gf_priority_apply(enum gf_helper_priority priority)
{
    static const struct sched_param lowest = {.sched_priority = REALTIME_PRIORITY};

    if (priority == gf_helper_priority_normal)
        return 0;
    if (!gf_permit(gf_permit_priority))
        return EPERM;
    /* Raw system calls with the id 0 change only the calling thread. */
    const long result = priority == gf_helper_priority_high
                            ? syscall(SYS_setpriority, PRIO_PROCESS, 0, HIGH_NICE)
                            : syscall(SYS_sched_setscheduler, 0, SCHED_RR, &lowest);
    return result < 0 ? errno : 0;
}

void gf_priority_warn(enum gf_helper_priority priority, int error)
{
    static _Atomic bool warned;

    if (error && !gf_exchange_relaxed(&warned, true))
        gf_warn("GPUFEED_HELPER_PRIORITY=%s has no effect: %s",
                priority == gf_helper_priority_high ? "high" : "realtime", strerrordesc_np(error));
}

/* Linux's SCHED_DEADLINE, which libc's headers may lack. */
#define DEADLINE 6

static bool read_policy(void)
{
    const long policy = syscall(SYS_sched_getscheduler, 0);
    const long kind = policy < 0 ? SCHED_OTHER : policy & ~(long)SCHED_RESET_ON_FORK;
    return kind == SCHED_FIFO || kind == SCHED_RR || kind == DEADLINE;
}

bool gf_is_realtime(void)
{
    static __thread bool last;

    if (gf_permit(gf_permit_priority))
        last = read_policy();
    return last;
}
