/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/target.h"

#include "os/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

/*
 * The most times that the process is searched for new threads. Without this limit, the search would
 * not end if threads kept starting others.
 */
#define ROUNDS 16

/*
 * Reads the thread's state and CPU from its file `stat`. The state follows the name, which is in
 * parentheses and may contain any character.
 */
static void read_stat(struct gf_target_thread *thread, pid_t pid)
{
    char text[1024];

    thread->state = '?';
    thread->cpu = -1;
    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/task/%d/stat", pid, thread->tid) < 0)
        return;
    const char *p = strrchr(text, ')');
    if (!p || !p[1])
        return;
    thread->state = p[2];
    p += 2;
    for (int field = 3; field < 39; field++) {
        p = strchr(p, ' ');
        if (!p)
            return;
        p++;
    }
    thread->cpu = (int)strtol(p, NULL, 10);
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
    if (gf_procfs_read(text, sizeof(text), "", "proc/%d/task/%d/status", pid, thread->tid) > 0) {
        const char *list = gf_procfs_field(text, "Cpus_allowed_list");
        if (list)
            snprintf(thread->cpus, sizeof(thread->cpus), "%.*s", (int)strcspn(list, "\n"), list);
    }
}

/* x86-64's C library keeps the address of a thread's descriptor in the base of segment fs. */
static void read_thread_area(struct gf_target_thread *thread)
{
#ifdef __x86_64__
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &registers) == 0)
        thread->thread_area = registers.fs_base;
#else
    (void)thread;
#endif
}

static void stop_thread(struct gf_target_thread *thread, pid_t pid)
{
    int status;

    describe(thread, pid);
    if (ptrace(PTRACE_SEIZE, thread->tid, NULL, NULL) != 0 ||
        ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) != 0) {
        thread->error = errno;
        return;
    }
    while (waitpid(thread->tid, &status, __WALL) < 0)
        if (errno != EINTR) {
            thread->error = errno;
            return;
        }
    thread->stopped = WIFSTOPPED(status);
    thread->error = thread->stopped ? 0 : ESRCH;
    if (thread->stopped)
        read_thread_area(thread);
}

static bool is_known(const struct gf_target *target, pid_t tid)
{
    for (size_t i = 0; i < target->count; i++)
        if (target->threads[i].tid == tid)
            return true;
    return false;
}

/* Stops the threads that are not stopped yet. Returns their number, or -errno. */
static int stop_new(struct gf_target *target)
{
    char path[64];
    int found = 0;

    snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return errno == ENOENT ? -ESRCH : -errno;
    for (const struct dirent *entry; (entry = readdir(tasks));) {
        const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || is_known(target, tid))
            continue;
        struct gf_target_thread *more =
            realloc(target->threads, (target->count + 1) * sizeof(*more));
        if (!more) {
            closedir(tasks);
            return -ENOMEM;
        }
        target->threads = more;
        more[target->count] = (struct gf_target_thread){.tid = tid};
        stop_thread(&more[target->count++], target->pid);
        found++;
    }
    closedir(tasks);
    return found;
}

static int by_tid(const void *a, const void *b)
{
    const struct gf_target_thread *one = a, *other = b;
    return (one->tid > other->tid) - (one->tid < other->tid);
}

int gf_target_stop(struct gf_target *target, pid_t pid)
{
    int found = 1;

    *target = (struct gf_target){.pid = pid};
    for (int round = 0; found > 0 && round < ROUNDS; round++)
        found = stop_new(target);
    if (found < 0)
        return -found;
    if (target->count)
        qsort(target->threads, target->count, sizeof(*target->threads), by_tid);
    for (size_t i = 0; i < target->count; i++)
        if (target->threads[i].stopped)
            return 0;
    return target->count ? target->threads[0].error : ESRCH;
}

void gf_target_release(struct gf_target *target)
{
    for (size_t i = 0; i < target->count; i++)
        if (target->threads[i].stopped)
            ptrace(PTRACE_DETACH, target->threads[i].tid, NULL, NULL);
    free(target->threads);
    *target = (struct gf_target){0};
}

size_t gf_target_read(void *closure, uintptr_t address, void *ret, size_t size)
{
    const struct gf_target *target = closure;
    const struct iovec to = {ret, size};
    const struct iovec from = {(void *)address, size};
    const ssize_t got = process_vm_readv(target->pid, &to, 1, &from, 1, 0);
    return got < 0 ? 0 : (size_t)got;
}
