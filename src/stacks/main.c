/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpufeed-stacks PID prints the Python and native stacks of every thread of a running process, with
 * or without the preload library. This is a separate program, because no other program needs
 * libunwind.
 */
#include "base/pystack/pystack.h"
#include "os/permit_find.h"
#include "stacks/native_frames.h"
#include "stacks/objects.h"
#include "stacks/python_threads.h"
#include "stacks/syscall_name.h"
#include "stacks/target.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 128

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
    else
        fprintf(stderr, "gpufeed stacks: cannot read process %d: %s\n", pid, strerror(error));
    return 1;
}

/*
 * Prints the name of a thread, file or function. The name comes from another process, so control
 * characters are replaced.
 */
static void put_text(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        putchar(*p < 0x20 || *p == 0x7f ? '?' : *p);
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

static void print_rest(const char *indent, size_t count)
{
    if (count > FRAMES)
        printf("%s(outer frames are not shown)\n", indent);
}

static void print_state(const struct gf_python_threads *python, struct gf_target *target,
                        uintptr_t state)
{
    static struct gf_pystack_frame frames[FRAMES + 1];
    const struct gf_pystack_memory memory = {gf_target_read, target};
    const size_t count =
        gf_pystack_frames(python->layout, &memory, state, frames, GF_ARRAY_LEN(frames));

    for (size_t k = 0; k < gf_min(count, (size_t)FRAMES); k++) {
        fputs("    ", stdout);
        put_text(frames[k].file);
        printf(":%d in ", frames[k].line);
        put_text(frames[k].function);
        putchar('\n');
    }
    print_rest("    ", count);
}

static void print_native(struct gf_native_unwinder *unwinder, struct gf_objects *objects,
                         const struct gf_target_thread *thread)
{
    static uintptr_t frames[FRAMES + 1];
    const size_t count =
        thread->stopped ? gf_native_frames(unwinder, thread->tid, frames, GF_ARRAY_LEN(frames)) : 0;

    if (!thread->stopped)
        printf("      (its stack cannot be read: %s)\n", strerror(thread->error));
    for (size_t k = 0; k < gf_min(count, (size_t)FRAMES); k++) {
        char name[512];
        gf_objects_name(objects, frames[k] - (k > 0), name, sizeof(name));
        fputs("      ", stdout);
        put_text(name);
        putchar('\n');
    }
    print_rest("      ", count);
}

static void print_all(struct gf_target *target, struct gf_native_unwinder *unwinder)
{
    struct gf_objects *objects = gf_objects_read(target->pid);
    struct gf_python_threads python;
    const int error = gf_python_threads_find(&python, target);

    printf("process %d: %zu thread%s", target->pid, target->count, target->count == 1 ? "" : "s");
    if (python.version[0])
        printf(", Python %s%s", python.version,
               error == 0         ? ""
               : error == ENOTSUP ? " (frames of this version cannot be read)"
                                  : " (its threads were not found)");
    putchar('\n');
    for (size_t i = 0; i < target->count; i++) {
        print_head(&target->threads[i]);
        for (size_t k = 0; k < python.count; k++)
            if (python.states[k].thread == i)
                print_state(&python, target, python.states[k].state);
        print_native(unwinder, objects, &target->threads[i]);
    }
    gf_python_threads_free(&python);
    gf_objects_free(objects);
}

int main(int argc, char **argv)
{
    struct gf_target target;
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
    gf_permit_find(GF_PERMIT_ALL);
    struct gf_native_unwinder *unwinder = gf_native_unwinder_new();
    const int error = unwinder ? gf_target_stop(&target, (pid_t)pid) : ENOMEM;
    if (!error)
        print_all(&target, unwinder);
    if (unwinder)
        gf_target_release(&target);
    gf_native_unwinder_free(unwinder);
    if (error)
        return fail((pid_t)pid, error);
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
