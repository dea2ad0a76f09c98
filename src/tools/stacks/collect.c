/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stacks/examine.h"

#include "base/clock.h"
#include "base/elf_view.h"
#include "base/input_file.h"

#include <fcntl.h>
#include <libunwind-ptrace.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The thread that is unwound. */
static struct gf_target *unwound_target;
static const struct gf_target_thread *unwound;

/*
 * Opens the list of the thread's mappings, or an ELF file that is whole. Returns a descriptor or
 * -errno.
 */
static int open_sound(const char *path)
{
    char same[32];
    struct gf_elf_view view;

    snprintf(same, sizeof(same), "/proc/%d/maps", unwound->tid);
    const bool is_maps = strcmp(path, same) == 0;
    const int fd = is_maps ? openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : gf_input_open(path);
    if (fd < 0 || is_maps)
        return fd;
    snprintf(same, sizeof(same), "/proc/self/fd/%d", fd);
    int error = gf_elf_view_open(same, &view);
    if (!error) {
        error = gf_elf_view_is_whole(&view) ? 0 : -EINVAL;
        gf_elf_view_close(&view);
    }
    if (error)
        close(fd);
    return error ? error : fd;
}

/*
 * The linker replaces libunwind's calls of open by this function. libunwind opens the paths of the
 * process's mappings, at which the process may have put a pipe, a device or a damaged file.
 */
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const int fd = open_sound(path);

    (void)flags; /* libunwind only reads */
    if (fd < 0)
        errno = -fd;
    return fd < 0 ? -1 : fd;
}

/*
 * Likewise, libunwind blocks all signals while it reads a mapped file. If the file is truncated, a
 * blocked SIGBUS would end the process, instead of calling the handler of tools/common/text.h.
 */
int __real_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t most;

    if (!set || how == SIG_UNBLOCK)
        return __real_sigprocmask(how, set, old);
    most = *set;
    sigdelset(&most, SIGBUS);
    return __real_sigprocmask(how, &most, old);
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                      void *info)
{
    (void)space;
    (void)info;
    return !write &&
                   gf_target_read(unwound_target, address, value, sizeof(*value)) == sizeof(*value)
               ? 0
               : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write,
                      void *info)
{
    static const size_t offsets[] = {
#define AT(name) offsetof(struct user_regs_struct, name)
        [UNW_X86_64_RAX] = AT(rax), [UNW_X86_64_RDX] = AT(rdx), [UNW_X86_64_RCX] = AT(rcx),
        [UNW_X86_64_RBX] = AT(rbx), [UNW_X86_64_RSI] = AT(rsi), [UNW_X86_64_RDI] = AT(rdi),
        [UNW_X86_64_RBP] = AT(rbp), [UNW_X86_64_RSP] = AT(rsp), [UNW_X86_64_R8] = AT(r8),
        [UNW_X86_64_R9] = AT(r9),   [UNW_X86_64_R10] = AT(r10), [UNW_X86_64_R11] = AT(r11),
        [UNW_X86_64_R12] = AT(r12), [UNW_X86_64_R13] = AT(r13), [UNW_X86_64_R14] = AT(r14),
        [UNW_X86_64_R15] = AT(r15), [UNW_X86_64_RIP] = AT(rip),
#undef AT
    };
    (void)space;
    (void)info;
    if (write || number < 0 || (size_t)number >= GF_ARRAY_LEN(offsets))
        return -UNW_EBADREG;
    memcpy(value, (const char *)&unwound->registers + offsets[number], sizeof(*value));
    return 0;
}

/*
 * Creates an address space for all threads of one target. It caches unwind data of the objects. Its
 * functions trace no thread, because the tracer is another process. NULL if memory is short.
 */
static unw_addr_space_t create_space(void)
{
    unw_accessors_t accessors = _UPT_accessors;

    accessors.access_mem = access_mem;
    accessors.access_reg = access_reg;
    accessors.access_fpreg = NULL;
    unw_addr_space_t space = unw_create_addr_space(&accessors, 0);
    if (space)
        unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
    return space;
}

/*
 * Stores the address that each frame executes, innermost first. Returns the number of frames; 0 if
 * the thread cannot be read.
 */
static size_t native_frames(unw_addr_space_t space, struct gf_target *target,
                            const struct gf_target_thread *thread, uintptr_t *ret, size_t cap)
{
    void *info = _UPT_create(thread->tid);
    unw_cursor_t cursor;
    size_t count = 0;

    unwound_target = target;
    unwound = thread;
    if (!info)
        return 0;
    if (unw_init_remote(&cursor, space, info) == 0)
        do {
            unw_word_t address = 0;
            if (unw_get_reg(&cursor, UNW_REG_IP, &address) != 0 || !address)
                break;
            ret[count++] = address;
        } while (count < cap && unw_step(&cursor) > 0);
    _UPT_destroy(info);
    return count;
}

/* After this time no further stack is read. A third of it is for finding Python's threads. */
#define READ_NS UINT64_C(1500000000)
/* After this time the reader is killed: a file of the process may be on a mount that hangs. */
#define READER_MS 1600
#define CHILD_MS 3000
#define REAP_MS 200

/*
 * The children write to a file in memory, so that they never wait for this process: a `head`, the
 * threads, a `python`, then for each thread a `gf_stack` without its lists, and the frames.
 */
struct head {
    int error;
    size_t count;
    uint64_t stopped_ns; /* written last; 0: the tracer was killed before */
};

struct python {
    int error;
    char version[32];
};

/* Reads the frames of all of the thread's states, of which it has one in each interpreter. */
static size_t read_python(const struct gf_python_threads *python, struct gf_target *target,
                          size_t i, struct gf_pystack_frame *ret, size_t max,
                          struct gf_stack *stack)
{
    const struct gf_pystack_memory memory = {gf_target_read, target};
    const struct gf_pystack reader = {python->layout, &memory};
    size_t count = 0;

    for (size_t k = 0; k < python->count && count < max; k++)
        if (python->states[k].thread == i) {
            const uintptr_t state = python->states[k].state;
            count += gf_pystack_frames(&reader, state, ret + count, max - count, NULL);
            if (!stack->name[0] &&
                !gf_pystack_thread_name(&reader, state, stack->name, sizeof(stack->name)))
                stack->name[0] = '\0';
        }
    return count;
}

static uint32_t cut(size_t count, bool *ret_cut)
{
    *ret_cut = count > GF_COLLECT_FRAMES;
    return (uint32_t)gf_min(count, (size_t)GF_COLLECT_FRAMES);
}

static void write_stack(FILE *out, const struct gf_python_threads *python, struct gf_target *target,
                        unw_addr_space_t space, size_t i)
{
    static struct gf_pystack_frame frames[GF_COLLECT_FRAMES + 1];
    static uintptr_t native[GF_COLLECT_FRAMES + 1];
    const struct gf_target_thread *thread = &target->threads[i];
    struct gf_stack stack = {.thread = *thread, .read = true};

    stack.python_count = cut(read_python(python, target, i, frames, GF_ARRAY_LEN(frames), &stack),
                             &stack.python_cut);
    if (thread->stopped && space)
        stack.native_count = cut(native_frames(space, target, thread, native, GF_ARRAY_LEN(native)),
                                 &stack.native_cut);
    fwrite(&stack, sizeof(stack), 1, out);
    fwrite(frames, sizeof(*frames), stack.python_count, out);
    fwrite(native, sizeof(*native), stack.native_count, out);
    fflush(out);
}

/* One of the two child processes. */
struct child {
    void (*run)(struct child *child);
    FILE *out;
    pid_t pid; /* the examined process */
    bool native;
    struct gf_target target;
};

/*
 * Runs in the reader, a child of the tracer. If it hangs in the kernel, for example at a FUSE file
 * system that does not answer, even SIGKILL does not end it. The tracer ends nevertheless, so that
 * the threads continue.
 */
static void write_stacks(struct child *child)
{
    struct gf_target *target = &child->target;
    const unw_addr_space_t space = child->native ? create_space() : NULL;
    const uint64_t start_ns = gf_now_ns();
    struct gf_python_threads threads;

    target->until_ns = start_ns + READ_NS / 3;
    struct python python = {.error = gf_python_threads_find(&threads, target)};
    target->until_ns = start_ns + READ_NS;
    memcpy(python.version, threads.version, sizeof(python.version));
    fwrite(&python, sizeof(python), 1, child->out);
    for (size_t i = 0;
         (space || !child->native) && i < target->count && gf_now_ns() < target->until_ns; i++)
        write_stack(child->out, &threads, target, space, i);
    fflush(child->out);
}

/*
 * Prepares a child. Keys of the terminal do not reach it, because it has a session of its own. It
 * ends with its parent, and also by its own alarm. It holds no pipe open that another program reads.
 */
static void begin_child(pid_t parent)
{
    const int null = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    alarm(CHILD_MS / 1000);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (getppid() != parent)
        _exit(1);
}

/* Waits until the child has ended, or kills it. A child that hangs in the kernel is not awaited. */
static void await_child(pid_t child, int end, unsigned most_ms)
{
    struct pollfd poller = {.fd = end, .events = POLLIN};
    const uint64_t until_ns = gf_now_ns() + most_ms * UINT64_C(1000000);

    while (gf_now_ns() < until_ns && poll(&poller, 1, (int)most_ms) < 0 && errno == EINTR)
        ;
    kill(child, SIGKILL);
    for (unsigned i = 0; i < REAP_MS && waitpid(child, NULL, WNOHANG) == 0; i++)
        gf_sleep_ns(1000000);
}

/* Runs child->run in a child process, for a limited time. Returns 0 or an errno. */
static int run_child(struct child *child, unsigned most_ms)
{
    const pid_t parent = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        return errno;
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        begin_child(parent);
        child->run(child);
        _exit(0);
    }
    const int error = pid < 0 ? errno : 0;
    close(ends[1]);
    if (!error)
        await_child(pid, ends[0], most_ms);
    close(ends[0]);
    return error;
}

/* Runs in the tracer. */
static void stop_and_read(struct child *child)
{
    struct gf_target *target = &child->target;
    struct head head = {.error = gf_target_stop(target, child->pid)};

    head.count = head.error ? 0 : target->count;
    fwrite(&head, sizeof(head), 1, child->out);
    fwrite(target->threads, sizeof(*target->threads), head.count, child->out);
    fflush(child->out);
    child->run = write_stacks;
    if (!head.error)
        run_child(child, READER_MS);
    const uint64_t since_ns = target->since_ns;
    gf_target_release(target);
    head.stopped_ns = gf_now_ns() - since_ns;
    if (pwrite(fileno(child->out), &head, sizeof(head), 0) < 0)
        return; /* then the time is that of the whole reading */
}

static bool read_frames(FILE *in, struct gf_stack *stack)
{
    struct gf_stack found;

    if (fread(&found, sizeof(found), 1, in) != 1 || found.python_count > GF_COLLECT_FRAMES ||
        found.native_count > GF_COLLECT_FRAMES)
        return false;
    found.python = stack->python = calloc(found.python_count + 1, sizeof(*found.python));
    found.native = stack->native = calloc(found.native_count + 1, sizeof(*found.native));
    if (!found.python || !found.native ||
        fread(found.python, sizeof(*found.python), found.python_count, in) != found.python_count ||
        fread(found.native, sizeof(*found.native), found.native_count, in) != found.native_count)
        return false;
    *stack = found;
    return true;
}

/* Reads what the children have written, perhaps not all. */
static int read_collected(FILE *in, struct gf_collected *ret)
{
    struct head head;
    struct python python;

    rewind(in);
    if (fread(&head, sizeof(head), 1, in) != 1)
        return ETIMEDOUT;
    if (head.error)
        return head.error;
    ret->stopped_ns = head.stopped_ns;
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

int gf_collect(pid_t pid, bool native, struct gf_collected *ret)
{
    const int memory = memfd_create("gpufeed-stacks", MFD_CLOEXEC);
    struct child child = {
        stop_and_read, memory < 0 ? NULL : fdopen(memory, "w+"), pid, native, {0}};

    const uint64_t start_ns = gf_now_ns();

    *ret = (struct gf_collected){.count = 0};
    int error = child.out ? run_child(&child, CHILD_MS) : errno;
    if (!error)
        error = read_collected(child.out, ret);
    if (!ret->stopped_ns)
        ret->stopped_ns = gf_now_ns() - start_ns;
    if (child.out)
        fclose(child.out);
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
