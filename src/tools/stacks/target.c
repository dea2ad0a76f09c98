/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stacks/examine.h"

#include "base/clock.h"
#include "os/procfs.h"
#include "tools/common/text.h"

#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

/*
 * The most times that the process is searched for new threads. Without this limit, the search would
 * not end if threads kept starting others.
 */
#define ROUNDS 16
/* How long the threads are awaited at most, in one round and in all. */
#define ROUND_NS UINT64_C(100000000)
#define STOP_NS UINT64_C(400000000)
/* So many threads are stopped at a time. If one of them does not stop, the next ones are. */
#define BATCH 256
#define BATCH_NS UINT64_C(10000000)
/* The threads run while they are described, so this time is longer. */
#define DESCRIBE_NS UINT64_C(800000000)
#define IDS ((size_t)1 << 22) /* of threads: PID_MAX_LIMIT */

static void read_stat(struct gf_target_thread *thread, pid_t pid)
{
    char text[1024];

    gf_procfs_read(text, sizeof(text), "", "proc/%d/task/%d/stat", pid, thread->tid);
    const char *state = gf_procfs_stat(text, 3), *cpu = gf_procfs_stat(text, 39);
    thread->state = '?';
    if (state)
        thread->state = *state;
    thread->cpu = cpu ? (int)strtol(cpu, NULL, 10) : -1;
}

static void describe(struct gf_target_thread *thread, pid_t pid)
{
    char text[4096];

    read_stat(thread, pid);
    if (gf_procfs_read(thread->name, sizeof(thread->name), "", "proc/%d/task/%d/comm", pid,
                       thread->tid) < 0)
        thread->name[0] = '\0';
    thread->syscall = -1;
    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/task/%d/syscall", pid, thread->tid) > 0 &&
        text[0] >= '0' && text[0] <= '9')
        thread->syscall = strtol(text, NULL, 10);
    thread->cpus[0] = '\0';
    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/task/%d/status", pid, thread->tid) > 0)
        gf_procfs_copy(text, "Cpus_allowed_list", thread->cpus, sizeof(thread->cpus));
}

/* Requests the stop, and does not wait for it. */
static void request_stop(struct gf_target_thread *thread)
{
    if (ptrace(PTRACE_SEIZE, thread->tid, NULL, NULL) != 0 ||
        ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) != 0)
        thread->error = errno;
    else
        thread->error = ETIMEDOUT; /* until it has stopped */
}

/* Whether the thread may still stop. */
static bool is_awaited(struct gf_target_thread *thread)
{
    int status;

    if (thread->stopped || thread->error != ETIMEDOUT)
        return false;
    const pid_t found = waitpid(thread->tid, &status, __WALL | WNOHANG);
    if (found != thread->tid) {
        thread->error = found < 0 && errno != EINTR ? errno : ETIMEDOUT;
        return thread->error == ETIMEDOUT;
    }
    thread->stopped = WIFSTOPPED(status);
    thread->error = thread->stopped ? 0 : ESRCH;
    if (!thread->stopped)
        return false;
    /* If a signal arrived first, it is delivered when the thread continues. */
    thread->signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->registers);
    return false;
}

/*
 * Waits until the threads from `first` up to `end` have stopped, but not for a thread in an
 * uninterruptible wait, such as that for the child of vfork.
 */
static void await_stops(struct gf_target *target, size_t first, size_t end, uint64_t until_ns)
{
    for (;;) {
        size_t awaited = 0;
        for (size_t i = first; i < end; i++)
            awaited += is_awaited(&target->threads[i]);
        if (!awaited || gf_now_ns() >= until_ns)
            return;
        gf_sleep_ns(500000);
    }
}

/* Stops the threads from `first` on until a time. Returns the index of the first other thread. */
static size_t stop_from(struct gf_target *target, size_t first, uint64_t until_ns)
{
    size_t at = first;

    while (at < target->count && gf_now_ns() < until_ns) {
        const size_t end = gf_min(at + BATCH, target->count);
        for (size_t i = at; i < end; i++)
            request_stop(&target->threads[i]);
        await_stops(target, at, end, gf_min(until_ns, gf_now_ns() + BATCH_NS));
        at = end;
    }
    await_stops(target, first, at, gf_min(until_ns, gf_now_ns() + ROUND_NS));
    return at;
}

/* Whether the thread was not seen before. */
static bool is_new(const struct gf_target *target, pid_t tid)
{
    uint8_t *const byte = &target->known[(size_t)tid / 8 % (IDS / 8)];
    const uint8_t bit = (uint8_t)(1U << tid % 8), before = *byte;

    *byte |= bit;
    return !(before & bit);
}

/* Adds new threads, and describes them until a time. Returns their number, or -errno. */
static int add_new(struct gf_target *target, uint64_t until_ns)
{
    int found = 0;

    GF_FOLDER(tasks, gf_text("/proc/%d/task", target->pid));
    if (!tasks.entries)
        return errno == ENOENT ? -ESRCH : -errno;
    for (const char *name; (name = gf_folder_next(&tasks));) {
        const pid_t tid = (pid_t)strtol(name, NULL, 10);
        if (tid <= 0 || !is_new(target, tid))
            continue;
        struct gf_target_thread *more =
            realloc(target->threads, (target->count + 1) * sizeof(*more));
        if (!more)
            return -ENOMEM;
        target->threads = more;
        more += target->count++;
        *more = (struct gf_target_thread){.tid = tid, .state = '?', .syscall = -1, .cpu = -1};
        if (gf_now_ns() < until_ns)
            describe(more, target->pid);
        found++;
    }
    return found;
}

/* The main thread first: after the kernel's last process id, ids begin again at small numbers. */
static int by_tid(const void *a, const void *b, void *pid)
{
    const pid_t one = ((const struct gf_target_thread *)a)->tid,
                other = ((const struct gf_target_thread *)b)->tid, first = *(pid_t *)pid;

    return gf_order(one != first, other != first) ?: gf_order(one, other);
}

int gf_target_stop(struct gf_target *target, pid_t pid)
{
    *target = (struct gf_target){.pid = pid, .known = calloc(IDS / 8, 1)};
    if (!target->known)
        return ENOMEM;
    int found = add_new(target, gf_now_ns() + DESCRIBE_NS);
    target->since_ns = gf_now_ns();
    const uint64_t until_ns = target->since_ns + STOP_NS;
    for (size_t at = 0, round = 0; found > 0 && round < ROUNDS; round++) {
        at = stop_from(target, at, until_ns);
        found = add_new(target, until_ns);
    }
    if (found < 0)
        return -found;
    if (target->count)
        qsort_r(target->threads, target->count, sizeof(*target->threads), by_tid, &pid);
    for (size_t i = 0; i < target->count; i++)
        if (target->threads[i].stopped || !target->threads[i].error ||
            target->threads[i].error == ETIMEDOUT)
            return 0;
    return target->count ? target->threads[0].error : ESRCH;
}

void gf_target_release(struct gf_target *target)
{
    for (size_t i = 0; i < target->count; i++)
        if (target->threads[i].stopped)
            ptrace(PTRACE_DETACH, target->threads[i].tid, NULL,
                   (uintptr_t)target->threads[i].signal);
    free(target->threads);
    free(target->known);
    *target = (struct gf_target){0};
}

size_t gf_target_read(void *closure, uintptr_t address, void *ret, size_t size)
{
    const struct gf_target *target = closure;
    const struct iovec to = {ret, size};
    const struct iovec from = {(void *)address, size};
    const ssize_t got =
        gf_now_ns() < target->until_ns ? process_vm_readv(target->pid, &to, 1, &from, 1, 0) : 0;
    return got < 0 ? 0 : (size_t)got;
}
