/* SPDX-License-Identifier: Apache-2.0 */
/* Gpufeed-stacks. */
#include "base/clock.h"
#include "base/fmt.h"
#include "base/json.h"
#include "os/permit.h"
#include "os/procfs.h"
#include "tools/common/text.h"
#include "tools/stacks/examine.h"

#include <getopt.h>
#include <stdlib.h>

#define CALLS(X)                                                                                   \
    X(read), X(write), X(pread64), X(pwrite64), X(readv), X(writev), X(futex), X(ppoll),           \
        X(pselect6), X(epoll_pwait), X(nanosleep), X(clock_nanosleep), X(wait4), X(waitid),        \
        X(recvfrom), X(recvmsg), X(sendto), X(sendmsg), X(accept), X(accept4), X(connect),         \
        X(ioctl), X(rt_sigtimedwait), X(rt_sigsuspend), X(openat), X(close), X(fsync),             \
        X(fdatasync), X(flock), X(munmap), X(mmap), X(madvise), X(mprotect), X(sched_yield),       \
        X(io_getevents), X(getdents64), X(newfstatat), X(statx), X(restart_syscall), X(poll),      \
        X(select), X(epoll_wait), X(pause), X(open), X(stat)

/*
 * Returns the name of a system call in which threads often wait; NULL if the call is not in the
 * table.
 */
static const char *gf_syscall_name(long number)
{
#define CALL(name) [SYS_##name] = #name
    static const char *const names[] = {CALLS(CALL)};
    return number >= 0 && number < (long)GF_ARRAY_LEN(names) ? names[number] : NULL;
}

/*
 * gpufeed-stacks PID... prints the Python and native stacks of every thread of running processes, with
 * or without the preload library. This is a separate program, because no other program needs
 * libunwind. `gpufeed stacks` passes its flags.
 */

static struct {
    int python, all, json; /* --python, --all, --json */
} flags;

static void fail(pid_t pid, int error)
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
}

/* Returns the name of a thread, file or function, which comes from another process. */
static const char *plain(const char *text)
{
    return gf_plain_text(gf_text("%s", text));
}

static const char *state_words(char state)
{
    return state == 'R'   ? "running"
           : state == 'D' ? "in an uninterruptible wait"
           : state == 'S' ? "waiting"
           : state == 'Z' ? "ended"
           : state == 'T' ? "stopped"
                          : "in an unknown state";
}

static void print_head(const struct gf_stack *stack)
{
    const struct gf_target_thread *thread = &stack->thread;

    printf("\nthread %d \"%s", thread->tid, plain(thread->name));
    if (stack->name[0])
        printf("\", in Python \"%s", plain(stack->name));
    printf("\": %s", state_words(thread->state));
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
    for (uint32_t i = 0; i < stack->python_count; i++)
        printf("    %s:%d in %s\n", plain(stack->python[i].file), stack->python[i].line,
               plain(stack->python[i].function));
    print_rest("    ", stack->python_cut);
}

/* Returns why the stack is not known; NULL if it was read. */
static const char *why_unread(const struct gf_stack *stack)
{
    const int error = stack->thread.error;

    return error == ETIMEDOUT                       ? "the thread does not stop"
           : error                                  ? strerror(error)
           : !stack->read || !stack->thread.stopped ? "reading the process took too long"
                                                    : NULL;
}

/*
 * Names a native frame. Returns false if the stack ends before it: where unwind data is missing, a
 * caller's address is guessed, and so may be no code.
 */
static bool name_frame(struct gf_objects *objects, const struct gf_stack *stack, uint32_t i,
                       char ret[1024])
{
    const bool found = gf_objects_name(objects, stack->native[i] - (i > 0), ret, 512);

    gf_plain_text(ret);
    return found || i == 0;
}

static void print_native(struct gf_objects *objects, const struct gf_stack *stack)
{
    const char *why = why_unread(stack);
    char name[1024];
    uint32_t i = 0;

    if (why)
        printf("      (its stack %s: %s)\n",
               stack->thread.error ? "cannot be read" : "was not read", why);
    for (; i < stack->native_count && name_frame(objects, stack, i, name); i++)
        printf("      %s\n", name);
    print_rest("      ", stack->native_cut || i < stack->native_count);
}

struct process {
    pid_t pid;
    struct gf_collected collected;
};

/* Whether the thread is one of the driver or of the library, to judge by its name. */
static bool is_helper(const struct process *process, const struct gf_stack *stack)
{
    const char *name = stack->thread.name;

    return stack->thread.tid != process->pid && !stack->python_count &&
           (strncmp(name, "gpufeed", 7) == 0 || strncmp(name, "cuda", 4) == 0);
}

static bool is_hidden(const struct process *process, const struct gf_stack *stack)
{
    return flags.python ? stack->read && !stack->python_count
                        : !flags.all && is_helper(process, stack);
}

static const char *python_words(int error)
{
    return error == 0         ? ""
           : error == ENOTSUP ? " (frames of this version cannot be read)"
                              : " (its threads were not found)";
}

static void print_all(const void *closure)
{
    const struct process *process = closure;
    const struct gf_collected *collected = &process->collected;
    struct gf_objects *objects = flags.python ? NULL : gf_objects_read(process->pid);
    size_t hidden = 0;

    printf("process %d: %zu thread%s", process->pid, collected->count,
           collected->count == 1 ? "" : "s");
    if (collected->python[0])
        printf(", Python %s%s", collected->python, python_words(collected->python_error));
    printf(", stopped for %.1f ms\n", (double)collected->stopped_ns / 1e6);
    for (size_t i = 0; i < collected->count; i++) {
        const struct gf_stack *stack = &collected->stacks[i];
        if (is_hidden(process, stack)) {
            hidden++;
            continue;
        }
        print_head(stack);
        print_python(stack);
        if (!flags.python || why_unread(stack))
            print_native(objects, stack);
    }
    if (hidden)
        printf("\n(not shown: %zu thread%s %s)\n", hidden, hidden == 1 ? "" : "s",
               flags.python ? "without Python frames"
                            : "named \"cuda...\" or \"gpufeed...\"; --all shows them");
}

static void put_plain(struct gf_json *json, const char *key, const char *text)
{
    gf_json_text(json, key, *text ? plain(text) : NULL);
}

static void put_frames(struct gf_json *json, struct gf_objects *objects,
                       const struct gf_stack *stack)
{
    char name[1024];
    uint32_t i = 0;

    gf_json_begin(json, "python", '[');
    for (uint32_t k = 0; k < stack->python_count; k++) {
        gf_json_object(json, NULL);
        put_plain(json, "file", stack->python[k].file);
        gf_json_int(json, "line", stack->python[k].line);
        put_plain(json, "function", stack->python[k].function);
    }
    gf_json_end(json, ']');
    gf_json_bool(json, "python_cut", stack->python_cut);
    gf_json_begin(json, "native", '[');
    for (; i < stack->native_count && name_frame(objects, stack, i, name); i++)
        gf_json_text(json, NULL, name);
    gf_json_end(json, ']');
    gf_json_bool(json, "native_cut", stack->native_cut || i < stack->native_count);
}

static void put_thread(struct gf_json *json, struct gf_objects *objects,
                       const struct gf_stack *stack)
{
    const struct gf_target_thread *thread = &stack->thread;
    const char *call = gf_syscall_name(thread->syscall);

    gf_json_object(json, NULL);
    gf_json_int(json, "tid", thread->tid);
    put_plain(json, "name", thread->name);
    put_plain(json, "python_name", stack->name);
    gf_json_text(json, "state", state_words(thread->state));
    gf_json_text(json, "system_call",
                 call                  ? call
                 : thread->syscall < 0 ? NULL
                                       : gf_text("%ld", thread->syscall));
    gf_json_known_int(json, "cpu", thread->cpu);
    put_plain(json, "cpus", thread->cpus);
    gf_json_text(json, "error", why_unread(stack));
    put_frames(json, objects, stack);
}

static void put_process(struct gf_json *json, const struct process *process,
                        struct gf_objects *objects)
{
    const struct gf_collected *collected = &process->collected;

    gf_json_object(json, NULL);
    gf_json_int(json, "pid", process->pid);
    put_plain(json, "python", collected->python);
    gf_json_bool(json, "python_read", collected->python[0] && !collected->python_error);
    gf_json_micro(json, "stopped_s", collected->stopped_ns / 1000);
    gf_json_array(json, "threads");
    for (size_t i = 0; i < collected->count; i++)
        put_thread(json, objects, &collected->stacks[i]);
}

/* Prints the whole object at once, so that a process whose files cannot be read leaves no part of it. */
static void print_object(const void *closure)
{
    struct gf_objects *objects =
        flags.python ? NULL : gf_objects_read(((const struct process *)closure)->pid);
    struct gf_json length = {.size = 0}, json;

    put_process(&length, closure, objects);
    json = (struct gf_json){.size = length.at + 65536}; /* names may differ if time runs out */
    json.buf = malloc(json.size);
    if (json.buf)
        put_process(&json, closure, objects);
    if (json.buf && gf_json_close(&json))
        fputs(json.buf, stdout);
    else
        printf("{\"pid\":%d,\"error\":\"memory is short\"}",
               ((const struct process *)closure)->pid);
}

/*
 * How long processes that cannot be read in time may keep the command waiting: those of this user for half
 * of this time, and those of each other user for half of what the others among them have left, because one
 * user may have many ids. Those that follow are only named. Another user's processes may claim to be of the
 * same job, and may be slow on purpose. So answers after PROMPT_NS count a quarter, because on a busy
 * machine any may take seconds. While a process is printed, no line may be missing for half of the time
 * that is left: then a file of the process is on a mount that hangs.
 */
#define OTHERS_NS UINT64_C(60000000000)
#define PROMPT_NS UINT64_C(250000000)
#define USERS_MOST 256 /* the last one stands for all others */

struct patience {
    uid_t user;
    uint64_t spent_ns;
};

static uint64_t others_ns; /* spent on processes of other users */

/* Returns the time that was spent on processes of the user whose process this is. */
static struct patience *find_patience(pid_t pid)
{
    static struct patience list[USERS_MOST];
    static size_t count;
    const uid_t user = gf_procfs_user(pid);
    size_t at = 0;

    if (!count)
        list[count++].user = geteuid();
    while (at < count && list[at].user != user)
        at++;
    at = gf_min(at, (size_t)USERS_MOST - 1);
    if (at == count)
        list[count++].user = user;
    return &list[at];
}

static uint64_t time_left(const struct patience *patience)
{
    const bool is_other = patience->user != geteuid();
    const uint64_t spent_ns = is_other ? gf_min(others_ns - patience->spent_ns, OTHERS_NS) : 0;
    const uint64_t share_ns = (OTHERS_NS - spent_ns) / 2;
    return share_ns - gf_min(patience->spent_ns, share_ns);
}

static void spend(struct patience *patience, uint64_t took_ns, bool answered)
{
    const bool is_other = patience->user != geteuid();

    if (answered)
        took_ns = is_other ? (took_ns - gf_min(took_ns, PROMPT_NS)) / 4 : 0;
    patience->spent_ns += took_ns;
    others_ns += is_other ? took_ns : 0;
}

static int print_collected(const struct process *process, uint64_t patience_ns)
{
    const int silence_ms = (int)(patience_ns / 2000000) + 1;
    const int error = gf_print_apart(flags.json ? print_object : print_all, process, silence_ms);

    if (error && flags.json)
        printf("{\"pid\":%d,\"error\":\"%s\"}", process->pid, strerror(error));
    else if (error == ETIMEDOUT)
        printf("\n(the rest of process %d is not shown: a file of it cannot be read)\n",
               process->pid);
    return error;
}

/* Returns 0 or an errno. */
static int show(pid_t pid, const char *separator, uint64_t *longest_ns)
{
    struct process process = {.pid = pid};
    struct patience *const patience = find_patience(pid);
    const uint64_t start_ns = gf_now_ns(), left_ns = time_left(patience);
    int error = left_ns ? gf_collect(pid, !flags.python, &process.collected) : ETIMEDOUT;
    const bool is_collected = !error;

    if (is_collected) {
        fputs(separator, stdout);
        error = print_collected(&process, left_ns);
        *longest_ns = gf_max(*longest_ns, process.collected.stopped_ns);
    }
    spend(patience, gf_now_ns() - start_ns, error != ETIMEDOUT);
    if (is_collected && (error == ETIMEDOUT || flags.json))
        error = 0; /* it was said there */
    gf_collected_free(&process.collected);
    return error;
}

/* Processes are stopped one after another. Returns how many were shown. */
static unsigned show_all(char **words, unsigned count)
{
    unsigned shown = 0;
    uint64_t longest_ns = 0;

    if (flags.json)
        fputs("{\"schema\":1,\"processes\":[", stdout);
    for (unsigned i = 0; i < count; i++) {
        const pid_t pid = (pid_t)strtol(words[i], NULL, 10);
        const int error = pid <= 0 ? ESRCH
                                   : show(pid,
                                          !shown       ? ""
                                          : flags.json ? ","
                                                       : "\n",
                                          &longest_ns);
        if (error)
            fail(pid, error);
        shown += !error;
    }
    if (flags.json)
        printf("],\"longest_stop_s\":%lu.%06lu}\n", longest_ns / 1000000000,
               longest_ns / 1000 % 1000000);
    else if (shown > 1)
        printf("\n%u processes were stopped one after another, the longest for %.1f ms.\n", shown,
               (double)longest_ns / 1e6);
    return shown;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"python", no_argument, &flags.python, 1},
                                            {"all", no_argument, &flags.all, 1},
                                            {"json", no_argument, &flags.json, 1},
                                            {0}};
    int code;

    while ((code = getopt_long(argc, argv, "", options, NULL)) == 0)
        ;
    if (code != -1 || optind == argc) {
        fputs("Usage: gpufeed stacks [--children] [--python] [--all] [--json] PID|JOB\n", stderr);
        return 2;
    }
    gf_bus_error_survive();
    gf_permit_find(GF_PERMIT_ALL);
    const unsigned shown = show_all(argv + optind, (unsigned)(argc - optind));
    return fflush(stdout) || ferror(stdout) || !shown ? 1 : 0;
}
