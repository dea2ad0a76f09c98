/* SPDX-License-Identifier: Apache-2.0 */
/* Gpufeed-stacks. */
#include "base/base.h"
#include "base/fmt.h"
#include "os/permit_find.h"
#include "tools/common/text.h"
#include "tools/stacks/collect.h"
#include "tools/stacks/objects.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define CALL(name)                                                                                 \
    {                                                                                              \
        SYS_##name, #name                                                                          \
    }

static const struct {
    long number;
    const char *name;
} calls[] = {
    CALL(read),
    CALL(write),
    CALL(pread64),
    CALL(pwrite64),
    CALL(readv),
    CALL(writev),
    CALL(futex),
    CALL(ppoll),
    CALL(pselect6),
    CALL(epoll_pwait),
    CALL(nanosleep),
    CALL(clock_nanosleep),
    CALL(wait4),
    CALL(waitid),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(sendto),
    CALL(sendmsg),
    CALL(accept),
    CALL(accept4),
    CALL(connect),
    CALL(ioctl),
    CALL(rt_sigtimedwait),
    CALL(rt_sigsuspend),
    CALL(openat),
    CALL(close),
    CALL(fsync),
    CALL(fdatasync),
    CALL(flock),
    CALL(munmap),
    CALL(mmap),
    CALL(madvise),
    CALL(mprotect),
    CALL(sched_yield),
    CALL(io_getevents),
    CALL(getdents64),
    CALL(newfstatat),
    CALL(statx),
    CALL(restart_syscall),
#ifdef SYS_poll
    CALL(poll),
    CALL(select),
    CALL(epoll_wait),
    CALL(pause),
    CALL(open),
    CALL(stat),
#endif
};

/*
 * Returns the name of a system call in which threads often wait; NULL if the call is not in the
 * table.
 */
static const char *gf_syscall_name(long number)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(calls); i++)
        if (calls[i].number == number)
            return calls[i].name;
    return NULL;
}

/*
 * gpufeed-stacks PID prints the Python and native stacks of every thread of a running process, with
 * or without the preload library. This is a separate program, because no other program needs
 * libunwind.
 */

static const char usage[] = "Usage: gpufeed stacks PID\n";

static int fail(pid_t pid, int error)
{
    if (error == ESRCH)
        fprintf(stderr, "gpufeed stacks: there is no process %d\n", pid);
    else if (error == EPERM || error == EACCES)
        fprintf(stderr,
                "gpufeed stacks: the kernel does not permit tracing process %d; use sudo, or in a "
                "container --cap-add SYS_PTRACE\n",
                pid);
    else if (error == ETIMEDOUT)
        fprintf(stderr, "gpufeed stacks: process %d cannot be read in time\n", pid);
    else
        fprintf(stderr, "gpufeed stacks: cannot read process %d: %s\n", pid, strerror(error));
    return 1;
}

/* Prints the name of a thread, file or function, which comes from another process. */
static void put_text(const char *text)
{
    char plain[1024];

    snprintf(plain, sizeof(plain), "%s", text);
    fputs(gf_plain_text(plain), stdout);
}

static void print_head(const struct gf_target_thread *thread)
{
    printf("\nthread %d \"", thread->tid);
    put_text(thread->name);
    printf("\": %s", thread->state == 'R'   ? "running"
                     : thread->state == 'D' ? "in an uninterruptible wait"
                     : thread->state == 'S' ? "waiting"
                     : thread->state == 'Z' ? "ended"
                     : thread->state == 'T' ? "stopped"
                                            : "in an unknown state");
    if (thread->syscall >= 0) {
        const char *name = gf_syscall_name(thread->syscall);
        name ? printf(" in %s", name) : printf(" in system call %ld", thread->syscall);
    }
    if (thread->cpu >= 0)
        printf(", last on CPU %d", thread->cpu);
    if (thread->cpus[0])
        printf(", may use CPUs %s", thread->cpus);
    putchar('\n');
}

static void print_rest(const char *indent, bool cut)
{
    if (cut)
        printf("%s(outer frames are not shown)\n", indent);
}

static void print_python(const struct gf_stack *stack)
{
    for (uint32_t i = 0; i < stack->python_count; i++) {
        fputs("    ", stdout);
        put_text(stack->python[i].file);
        printf(":%d in ", stack->python[i].line);
        put_text(stack->python[i].function);
        putchar('\n');
    }
    print_rest("    ", stack->python_cut);
}

static void print_native(struct gf_objects *objects, const struct gf_stack *stack)
{
    const int error = stack->thread.error;
    bool cut = stack->native_cut;

    if (error)
        printf("      (its stack cannot be read: %s)\n",
               error == ETIMEDOUT ? "the thread does not stop" : strerror(error));
    else if (!stack->read || !stack->thread.stopped)
        puts("      (its stack was not read: reading the process took too long)");
    for (uint32_t i = 0; i < stack->native_count; i++) {
        char name[512];
        /* Where unwind data is missing, a caller's address is guessed, and so may be no code. */
        if (!gf_objects_name(objects, stack->native[i] - (i > 0), name, sizeof(name)) && i > 0) {
            cut = true;
            break;
        }
        fputs("      ", stdout);
        put_text(name);
        putchar('\n');
    }
    print_rest("      ", cut);
}

struct process {
    pid_t pid;
    struct gf_collected collected;
};

static void print_all(const void *closure)
{
    const struct process *process = closure;
    const struct gf_collected *collected = &process->collected;
    struct gf_objects *objects = gf_objects_read(process->pid);
    const int error = collected->python_error;

    printf("process %d: %zu thread%s", process->pid, collected->count,
           collected->count == 1 ? "" : "s");
    if (collected->python[0])
        printf(", Python %s%s", collected->python,
               error == 0         ? ""
               : error == ENOTSUP ? " (frames of this version cannot be read)"
                                  : " (its threads were not found)");
    putchar('\n');
    for (size_t i = 0; i < collected->count; i++) {
        print_head(&collected->stacks[i].thread);
        print_python(&collected->stacks[i]);
        print_native(objects, &collected->stacks[i]);
    }
    gf_objects_free(objects);
}

/* No line is printed for longer than this only if a file of the process is on a mount that hangs. */
#define SILENCE_MS 15000

int main(int argc, char **argv)
{
    struct process process;
    char *end = NULL;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    const long pid = argc == 2 ? strtol(argv[1], &end, 10) : 0;
    if (pid <= 0 || pid > INT_MAX || *end) {
        if (argc == 2)
            fprintf(stderr, "gpufeed stacks: %s is not a process id\n", argv[1]);
        else
            fputs(usage, stderr);
        return 2;
    }
    gf_bus_error_survive();
    gf_permit_find(GF_PERMIT_ALL);
    process.pid = (pid_t)pid;
    int error = gf_collect(process.pid, &process.collected);
    const int cut = error ? 0 : gf_print_apart(print_all, &process, SILENCE_MS);
    if (cut == ETIMEDOUT)
        puts("\n(the rest is not shown: a file of the process cannot be read)");
    else
        error = error ?: cut;
    gf_collected_free(&process.collected);
    if (error)
        return fail(process.pid, error);
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
