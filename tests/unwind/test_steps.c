/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After each instruction of a small program, the library's unwinder finds the frames that libunwind
 * finds in a traced child, and those that libgcc finds in a handler of the trap flag.
 */
#include "unit.h"

#include "reference.h"
#include "scene.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define STEPS_MOST 100000
#define SIGNAL_EVERY 61 /* steps: a prime, so that signals meet each instruction of a loop */
/*
 * steps in one visit of the vdso: single steps make its clock reads so slow that it repeats them
 * for ever
 */
#define VDSO_MOST 300

static struct objects objects;
static _Alignas(16) unsigned char scratch[GF_UNWIND_SCRATCH];

struct frames {
    uintptr_t at[GF_UNWIND_FRAMES];
    size_t count;
};

static struct seen {
    size_t steps, frames, wrong;
    size_t loader, plt, vdso, signals; /* number of steps in each of these */
    size_t visit;                      /* steps in the vdso since it was entered */
} seen;

static void complain(const struct frames *own, const struct frames *theirs)
{
    if (seen.wrong++ >= 5)
        return;
    print_message("# step %zu: own %zu frames, expected %zu\n", seen.steps, own->count,
                  theirs->count);
    for (size_t i = 0; i < gf_max(own->count, theirs->count); i++) {
        const uintptr_t a = i < own->count ? own->at[i] : 0,
                        b = i < theirs->count ? theirs->at[i] : 0;
        const struct object *object = objects_find(&objects, b ? b : a);
        print_message("#   0x%zx 0x%zx %s+0x%zx\n", a, b, object ? object->name : "?",
                      object ? (b ? b : a) - object->start : 0);
    }
}

static void compare(const struct frames *own, const struct frames *theirs)
{
    seen.steps++;
    seen.frames += theirs->count;
    if (own->count != theirs->count ||
        memcmp(own->at, theirs->at, theirs->count * sizeof(theirs->at[0])) != 0)
        complain(own, theirs);
}

static void take(const struct gf_stack *stack, struct frames *ret)
{
    ret->count = stack->frames;
    for (size_t i = 0; i < stack->frames; i++)
        ret->at[i] = stack->module[stack->frame[i].module].base + stack->frame[i].offset;
}

/* An entry of a PLT jumps through the table, or pushes its number and jumps to the first entry. */
static bool is_plt(uintptr_t pc)
{
    static const unsigned char jump[] = {0xff, 0x25}, guarded[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x68};
    const unsigned char *entry = (const unsigned char *)(pc & ~(uintptr_t)15);
    return (memcmp(entry, jump, sizeof(jump)) == 0 && entry[6] == 0x68) ||
           memcmp(entry, guarded, sizeof(guarded)) == 0;
}

/* Counts a step by its place. Returns false after enough steps. */
static bool note_place(uintptr_t pc)
{
    const struct object *object = objects_find(&objects, pc);
    const bool is_vdso = object && strncmp(object->name, "linux-vdso", 10) == 0;

    seen.visit = is_vdso ? seen.visit + 1 : 0;
    if (seen.visit > VDSO_MOST)
        return false;
    seen.vdso += is_vdso;
    seen.loader += object && strncmp(object->name, "ld-linux", 8) == 0;
    seen.plt += object && is_plt(pc);
    return true;
}

static pid_t traced;

static size_t peek(uintptr_t address, void *ret, size_t size)
{
    const struct iovec local = {ret, size}, remote = {(void *)address, size};
    const ssize_t got = process_vm_readv(traced, &local, 1, &remote, 1, 0);
    return got < 0 ? 0 : (size_t)got;
}

/*
 * Reads a word. Tables are the same here and in the child; all other memory is read from the child.
 */
static bool read_word(void *closure, uintptr_t address, uintptr_t *ret)
{
    (void)closure;
    return objects_read(&objects, address, ret) || peek(address, ret, sizeof(*ret)) == sizeof(*ret);
}

static struct gf_dwarf_frame registers(void)
{
    struct user_regs_struct r;

    assert_int_equal(ptrace(PTRACE_GETREGS, traced, NULL, &r), 0);
    return (struct gf_dwarf_frame){r.rip,
                                   {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                    r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip}};
}

static void judge_step(struct reference *ref)
{
    struct gf_stack stack;
    struct frames own, theirs;

    ref->first = registers();
    if (!note_place(ref->first.pc))
        return;
    gf_unwind_stopped(&ref->first, peek, &stack, scratch);
    take(&stack, &own);
    theirs.count = reference_walk(ref, theirs.at, GF_UNWIND_FRAMES);
    compare(&own, &theirs);
}

/* Returns false if the child cannot be traced. */
static bool trace(void (*scene)(void))
{
    traced = fork();
    if (traced == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) {
            kill(getpid(), SIGSTOP);
            scene();
        }
        _exit(0);
    }
    int status;
    return traced > 0 && waitpid(traced, &status, 0) == traced && WIFSTOPPED(status);
}

/*
 * Handlers make a clock read of the vdso so slow that it is repeated for ever. So only its first
 * steps are interrupted.
 */
static bool may_be_interrupted(void)
{
    return seen.steps % SIGNAL_EVERY == 0 && (!seen.visit || seen.vdso < VDSO_MOST);
}

static void step_through(void (*scene)(void))
{
    struct reference ref = {.objects = &objects, .read = read_word};
    int status = 0, handlers = 0;
    long signum = 0;

    seen = (struct seen){0};
    if (!trace(scene))
        skip_because("this system lets no process trace its child");
    reference_open(&ref);
    while (seen.steps < STEPS_MOST) {
        judge_step(&ref);
        if (!signum && handlers && may_be_interrupted())
            signum = SIGUSR1;
        seen.signals += signum != 0;
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, traced, NULL, signum), 0);
        assert_int_equal(waitpid(traced, &status, 0), traced);
        if (!WIFSTOPPED(status))
            break;
        signum = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        handlers |= signum == SIGUSR1; /* the child has installed its handler */
    }
    reference_close(&ref);
    print_message("# %zu steps with %zu frames: %zu in the loader, %zu in PLTs, %zu in the vdso; "
                  "%zu signals were sent\n",
                  seen.steps, seen.frames, seen.loader, seen.plt, seen.vdso, seen.signals);
    assert_int_equal(seen.wrong, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(seen.steps > 5000 && seen.frames > 4 * seen.steps);
    assert_true(seen.plt > 10 && seen.loader > 1000 && seen.signals > 10);
    assert_true(seen.vdso > 0 || !objects_named(&objects, "linux-vdso"));
}

static void test_libunwind(void **state)
{
    gf_unwind_open();
    if (!gf_unwind_object((const void *)(uintptr_t)&test_libunwind))
        skip_because("this libc has no _dl_find_object");
    step_through((void (*)(void)) * state);
}

/* Declarations of libgcc's <unwind.h>, because libunwind's header of that name may hide it. */
struct _Unwind_Context;
typedef int each_frame_fn(struct _Unwind_Context *context, void *closure);
typedef int backtrace_fn(each_frame_fn *each, void *closure);
typedef uintptr_t get_ip_fn(struct _Unwind_Context *context, int *exact);

static backtrace_fn *backtrace_by_libgcc;
static get_ip_fn *get_ip;
static volatile sig_atomic_t stop_stepping;

static int add_frame(struct _Unwind_Context *context, void *closure)
{
    struct frames *ret = closure;
    int exact = 0;
    const uintptr_t ip = get_ip(context, &exact);

    if (ret->count < GF_UNWIND_FRAMES && objects_find(&objects, ip - !exact))
        ret->at[ret->count++] = ip - !exact;
    return 0;
}

/* The unwinder begins at the first frame outside of this program, to which the signal returns. */
static void on_trap(int signum, siginfo_t *info, void *context)
{
    static struct gf_stack stack;
    static struct frames own, all;
    struct frames theirs;
    size_t skipped = 0;

    (void)signum, (void)info;
    if (stop_stepping)
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100LL;
    if (!note_place((uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]))
        return;
    gf_unwind(&stack, scratch);
    all.count = 0;
    backtrace_by_libgcc(add_frame, &all);
    take(&stack, &own);
    while (skipped < all.count && own.count && all.at[skipped] != own.at[0])
        skipped++;
    theirs.count = all.count - skipped;
    memcpy(theirs.at, all.at + skipped, theirs.count * sizeof(all.at[0]));
    compare(&own, &theirs);
}

static bool find_libgcc(void)
{
    void *libgcc = dlopen("libgcc_s.so.1", RTLD_NOW);

    backtrace_by_libgcc = libgcc ? (backtrace_fn *)dlsym(libgcc, "_Unwind_Backtrace") : NULL;
    get_ip = libgcc ? (get_ip_fn *)dlsym(libgcc, "_Unwind_GetIPInfo") : NULL;
    objects_list(&objects);
    return backtrace_by_libgcc && get_ip;
}

static void test_libgcc(void **state)
{
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    struct sigaction before;

    gf_unwind_open();
    if (!gf_unwind_object((const void *)(uintptr_t)&test_libgcc))
        skip_because("this libc has no _dl_find_object");
    assert_true(find_libgcc());
    seen = (struct seen){0};
    assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
    stop_stepping = 1;
    raise(SIGTRAP); /* from now on, the loader has resolved all functions that the handler calls */
    stop_stepping = 0;
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | 0x100);
    ((void (*)(void)) * state)();
    stop_stepping = 1;
    sigaction(SIGTRAP, &before, NULL);
    print_message("# %zu steps with %zu frames\n", seen.steps, seen.frames);
    assert_int_equal(seen.wrong, 0);
    assert_true(seen.steps > 2000 && seen.frames > 4 * seen.steps);
}

#define STEPS_OF(judge, scene)                                                                     \
    {                                                                                              \
#judge " " #scene, test_##judge, NULL, NULL, (void *)scene_##scene                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_OF(libunwind, optimized),
        STEPS_OF(libunwind, plain),
        STEPS_OF(libgcc, optimized),
        STEPS_OF(libgcc, plain),
    };
    objects_list(&objects);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
