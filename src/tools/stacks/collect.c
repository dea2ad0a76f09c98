/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stacks/collect.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/input_file.h"
#include "tools/stacks/python_threads.h"

#include <libunwind-ptrace.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

/* The native frames of a stopped thread, by libunwind-ptrace. */

/* Creates an unwinder for all threads of one target. Returns NULL if memory is short. */
struct gf_native_unwinder;
struct gf_native_unwinder *gf_native_unwinder_new(void);
void gf_native_unwinder_free(struct gf_native_unwinder *unwinder);

/*
 * The linker replaces libunwind's calls of open by this function. libunwind opens the paths of the
 * process's mappings, at which the process may have put a pipe or a device.
 */
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const int fd = gf_input_open(path);

    (void)flags; /* libunwind only reads */
    if (fd < 0)
        errno = -fd;
    return fd < 0 ? -1 : fd;
}

/* A gf_native_unwinder is libunwind's address space, which caches unwind data of the objects. */
struct gf_native_unwinder *gf_native_unwinder_new(void)
{
    unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
    if (space)
        unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
    return (struct gf_native_unwinder *)space;
}

void gf_native_unwinder_free(struct gf_native_unwinder *unwinder)
{
    if (unwinder)
        unw_destroy_addr_space((unw_addr_space_t)unwinder);
}

/*
 * Stores the address that each frame executes, innermost first. Returns the number of frames; 0 if
 * the thread cannot be read.
 */
static size_t gf_native_frames(struct gf_native_unwinder *unwinder, pid_t tid, uintptr_t *ret,
                               size_t cap)
{
    void *info = _UPT_create(tid);
    unw_cursor_t cursor;
    size_t count = 0;

    if (!info)
        return 0;
    if (unw_init_remote(&cursor, (unw_addr_space_t)unwinder, info) == 0)
        do {
            unw_word_t address = 0;
            if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || !address)
                break;
            ret[count++] = address;
        } while (count < cap && unw_step(&cursor) > 0);
    _UPT_destroy(info);
    return count;
}

#define READ_NS UINT64_C(1500000000) /* after this time no further stack is read */
/* After this time the child is killed: a file of the process may be on a mount that hangs. */
#define CHILD_S 3
#define REAP_MS 200

/*
 * The child writes to a file in memory, so that it never waits for this process: a `head`, the
 * threads, a `python`, then for each thread a `counts` and the frames.
 */
struct head {
    int error;
    size_t count;
};

struct python {
    int error;
    char version[32];
};

struct counts {
    uint32_t python, native;
    bool python_cut, native_cut;
};

/* Reads the frames of all of the thread's states, of which it has one in each interpreter. */
static size_t read_python(const struct gf_python_threads *python, struct gf_target *target,
                          size_t i, struct gf_pystack_frame *ret, size_t max)
{
    const struct gf_pystack_memory memory = {gf_target_read, target};
    size_t count = 0;

    for (size_t k = 0; k < python->count && count < max; k++)
        if (python->states[k].thread == i)
            count += gf_pystack_frames(python->layout, &memory, python->states[k].state,
                                       ret + count, max - count);
    return count;
}

static uint32_t cut(size_t count, bool *ret_cut)
{
    *ret_cut = count > GF_COLLECT_FRAMES;
    return (uint32_t)gf_min(count, (size_t)GF_COLLECT_FRAMES);
}

static void write_stack(FILE *out, const struct gf_python_threads *python, struct gf_target *target,
                        struct gf_native_unwinder *unwinder, size_t i)
{
    static struct gf_pystack_frame frames[GF_COLLECT_FRAMES + 1];
    static uintptr_t native[GF_COLLECT_FRAMES + 1];
    const struct gf_target_thread *thread = &target->threads[i];
    struct counts counts = {.python = 0};

    counts.python =
        cut(read_python(python, target, i, frames, GF_ARRAY_LEN(frames)), &counts.python_cut);
    if (thread->stopped)
        counts.native = cut(gf_native_frames(unwinder, thread->tid, native, GF_ARRAY_LEN(native)),
                            &counts.native_cut);
    fwrite(&counts, sizeof(counts), 1, out);
    fwrite(frames, sizeof(*frames), counts.python, out);
    fwrite(native, sizeof(*native), counts.native, out);
    fflush(out);
}

static void write_stacks(FILE *out, struct gf_target *target, struct gf_native_unwinder *unwinder)
{
    const uint64_t start_ns = gf_now_ns();
    struct gf_python_threads threads;
    struct python python = {.error = gf_python_threads_find(&threads, target)};

    memcpy(python.version, threads.version, sizeof(python.version));
    fwrite(&python, sizeof(python), 1, out);
    for (size_t i = 0; i < target->count && gf_now_ns() - start_ns < READ_NS; i++)
        write_stack(out, &threads, target, unwinder, i);
}

/*
 * Keys of the terminal do not reach the child, because it has a session of its own. It ends with
 * this process, and also by its own alarm.
 */
static void run_child(FILE *out, pid_t pid, pid_t parent)
{
    struct gf_target target;
    struct gf_native_unwinder *unwinder = gf_native_unwinder_new();

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_S);
    if (getppid() != parent)
        _exit(1);
    struct head head = {.error = unwinder ? gf_target_stop(&target, pid) : ENOMEM};
    head.count = head.error ? 0 : target.count;
    fwrite(&head, sizeof(head), 1, out);
    if (!head.error) {
        fwrite(target.threads, sizeof(*target.threads), target.count, out);
        fflush(out);
        write_stacks(out, &target, unwinder);
    }
    fflush(out);
    if (unwinder)
        gf_target_release(&target);
    _exit(0);
}

/* Waits until the child has ended, or kills it. A child that hangs in the kernel is not awaited. */
static void await_child(pid_t child, int end)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    struct pollfd poller = {.fd = end, .events = POLLIN};
    const uint64_t until_ns = gf_now_ns() + CHILD_S * UINT64_C(1000000000);

    while (gf_now_ns() < until_ns && poll(&poller, 1, CHILD_S * 1000) < 0 && errno == EINTR)
        ;
    kill(child, SIGKILL);
    for (unsigned i = 0; i < REAP_MS && waitpid(child, NULL, WNOHANG) == 0; i++)
        nanosleep(&moment, NULL);
}

static bool read_frames(FILE *in, struct gf_stack *stack)
{
    struct counts counts;

    if (fread(&counts, sizeof(counts), 1, in) != 1 || counts.python > GF_COLLECT_FRAMES ||
        counts.native > GF_COLLECT_FRAMES)
        return false;
    stack->python = calloc(counts.python + 1, sizeof(*stack->python));
    stack->native = calloc(counts.native + 1, sizeof(*stack->native));
    if (!stack->python || !stack->native ||
        fread(stack->python, sizeof(*stack->python), counts.python, in) != counts.python ||
        fread(stack->native, sizeof(*stack->native), counts.native, in) != counts.native)
        return false;
    stack->python_count = counts.python;
    stack->native_count = counts.native;
    stack->python_cut = counts.python_cut;
    stack->native_cut = counts.native_cut;
    stack->read = true;
    return true;
}

/* Reads what the child has written, perhaps not all. */
static int read_collected(FILE *in, struct gf_collected *ret)
{
    struct head head;
    struct python python;

    rewind(in);
    if (fread(&head, sizeof(head), 1, in) != 1)
        return ETIMEDOUT;
    if (head.error)
        return head.error;
    ret->stacks = calloc(head.count, sizeof(*ret->stacks));
    if (!ret->stacks)
        return ENOMEM;
    for (; ret->count < head.count; ret->count++)
        if (fread(&ret->stacks[ret->count].thread, sizeof(ret->stacks->thread), 1, in) != 1)
            return ETIMEDOUT;
    if (fread(&python, sizeof(python), 1, in) != 1)
        return 0;
    memcpy(ret->python, python.version, sizeof(ret->python));
    ret->python_error = python.error;
    for (size_t i = 0; i < ret->count && read_frames(in, &ret->stacks[i]); i++)
        ;
    return 0;
}

int gf_collect(pid_t pid, struct gf_collected *ret)
{
    const int memory = memfd_create("gpufeed-stacks", MFD_CLOEXEC);
    FILE *file = memory < 0 ? NULL : fdopen(memory, "w+");
    const pid_t parent = getpid();
    int ends[2];

    *ret = (struct gf_collected){.count = 0};
    if (!file || pipe(ends))
        return errno;
    const pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        close(ends[0]);
        run_child(file, pid, parent);
    }
    close(ends[1]);
    await_child(child, ends[0]);
    close(ends[0]);
    const int error = read_collected(file, ret);
    fclose(file);
    return error;
}

void gf_collected_free(struct gf_collected *collected)
{
    for (size_t i = 0; i < collected->count; i++) {
        free(collected->stacks[i].python);
        free(collected->stacks[i].native);
    }
    free(collected->stacks);
    *collected = (struct gf_collected){.count = 0};
}
