/* SPDX-License-Identifier: Apache-2.0 */
#include "os/own_table.h"

#include "base/atomic.h"
#include "base/loader.h"
#include "config/startup_env.h"
#include "os/permit.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/single_threaded.h>

#define STACK ((size_t)512 << 10)
/* A preload's syscall() may read more arguments than it gets, above the thread's first frame. */
#define ABOVE ((size_t)256)
#define YIELDS 1000 /* limits how long await_end delays a hook */
#define UNSHARE 2U  /* CLOSE_RANGE_UNSHARE, since Linux 5.9 */
/* How long a call waits until the serving thread takes it. */
#define PATIENCE_NS 100000000L
/* The flags that pthread_create uses. A seccomp filter may refuse any other combination. */
#define FLAGS                                                                                      \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |            \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* The Java VM and Rust call this function of glibc, too, which no header declares. */
size_t gf_stack_size(void)
{
    size_t (*const least)(const pthread_attr_t *) = gf_libc_function("__pthread_get_minstack");
    const size_t mib = (size_t)1 << 20, needed = least ? least(NULL) : 0, unit = mib / 16;

    return needed <= 2 * unit ? mib : (mib + needed + unit - 1) & ~(unit - 1);
}

/*
 * All signals, except those that the thread's own faults raise, and except SIGSYS, by which a
 * seccomp filter may call a handler of the program.
 */
#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define BLOCKED                                                                                    \
    (~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGTRAP) | BIT(SIGSYS)))

struct call {
    void (*work)(void *closure);
    void *closure;
    bool shared; /* true if the thread starts with the program's descriptor table */
    bool done;
    _Atomic int tid; /* the kernel stores 0 when the thread has ended */
};

/*
 * Which descriptor table the calling thread uses. A thread created for one call shares this
 * variable, and all other thread-local variables, with its creator.
 */
static __thread __attribute__((tls_model("initial-exec"))) enum {
    table_shared,
    table_of_short_thread,
    table_for_life
} table;
/*
 * True if the kernel lacks close_range. Then each thread starts with a copy of the program's table.
 */
static _Atomic bool copies;

static void run_call(struct call *call)
{
    if (call->shared && syscall(SYS_close_range, 3U, ~0U, UNSHARE) < 0) {
        gf_store_relaxed(&copies, true);
        return;
    }
    call->work(call->closure);
    call->done = true;
}

/*
 * Creates a thread that calls run_call and ends. It does not use pthread_create, which allocates.
 * Returns the thread's id or -errno.
 */
static long create_thread(unsigned long flags, char *stack_end, struct call *call)
{
    void **top = (void **)(void *)stack_end;
    long ret;

    *--top = call;
    *--top = (void *)(uintptr_t)run_call;
#if defined(__x86_64__)
    register void *tid __asm__("r10") = &call->tid;
    register uintptr_t tls __asm__("r8");

    __asm__("mov %%fs:0, %0" : "=r"(tls));
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rax\n\t"
                     "pop %%rdi\n\t"
                     "call *%%rax\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "=a"(ret)
                     : "a"(SYS_clone), "D"(flags), "S"(top), "d"(&call->tid), "r"(tid),
                       "r"(tls), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone;
    register unsigned long x0 __asm__("x0") = flags;
    register void *x1 __asm__("x1") = top, *x2 __asm__("x2") = &call->tid;
    register uintptr_t x3 __asm__("x3");
    register void *x4 __asm__("x4") = &call->tid;

    __asm__("mrs %0, tpidr_el0" : "=r"(x3));
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "ldp x1, x0, [sp], #16\n\t"
                     "blr x1\n\t"
                     "mov x8, %[exit]\n\t"
                     "mov x0, xzr\n\t"
                     "svc #0\n\t"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [exit] "i"(SYS_exit)
                     : "memory");
    ret = (long)x0;
#endif
    return ret;
}

/*
 * Waits until the thread has ended. The kernel wakes waiters at the end of a thread without
 * FUTEX_PRIVATE_FLAG, so the wait must not use the flag either. For a moment after the wake,
 * /proc/self/task still lists the thread. A program that opened the thread's files at that moment
 * would fail. So the loop also waits until the thread no longer exists.
 */
static void await_end(struct call *call, long tid)
{
    const long process = syscall(SYS_getpid);
    int now;

    while ((now = gf_load_acquire(&call->tid)))
        syscall(SYS_futex, &call->tid, FUTEX_WAIT, now, NULL);
    for (unsigned i = 0; i < YIELDS && syscall(SYS_tgkill, process, tid, 0) == 0; i++)
        syscall(SYS_sched_yield);
}

static void run_on_thread(struct call *call)
{
    const uint64_t blocked = BLOCKED;
    uint64_t before;
    char *stack = gf_scratch_take(STACK);

    if (!stack)
        return;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof(before));
    table = table_of_short_thread;
    for (unsigned tries = 0; tries < 2 && !call->done; tries++) {
        call->shared = gf_permit(gf_permit_close_range) && !gf_load_relaxed(&copies);
        const unsigned long flags = FLAGS & ~(call->shared ? 0UL : (unsigned long)CLONE_FILES);
        const long tid = create_thread(flags, stack + STACK - ABOVE, call);
        if (tid < 0)
            break;
        await_end(call, tid);
    }
    /*
     * When the signal mask is restored, the handler of a pending signal runs. It may open files,
     * and may never return. So `table` is restored and the stack is freed before.
     */
    table = table_shared;
    gf_scratch_give(stack, STACK);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

/* A call that waits for a serving thread. `state` is a futex. */
struct request {
    _Atomic uint32_t state;
    struct call *call;
};
enum { request_free, request_claimed, request_posted, request_running, request_done };

static struct server {
    struct request requests[8];
    _Atomic uint32_t posted; /* counts requests, and is a futex */
    _Atomic pid_t process;   /* whose thread serves; a forked child has no such thread */
    int priority;            /* of the thread; 0: not real-time */
} servers[GF_SERVERS];

static bool change(struct request *request, uint32_t from, uint32_t to)
{
    return gf_cas_acq_rel(&request->state, &from, to);
}

static struct request *claim_request(struct server *server)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(server->requests); i++)
        if (change(&server->requests[i], request_free, request_claimed))
            return &server->requests[i];
    return NULL;
}

/* Returns false if the server did not take the request, because its last file hangs. */
static bool await_done(struct request *request)
{
    const struct timespec patience = {.tv_nsec = PATIENCE_NS};

    for (uint32_t state; (state = gf_load_acquire(&request->state)) != request_done;) {
        const bool waits = state == request_posted;
        if (syscall(SYS_futex, &request->state, FUTEX_WAIT_PRIVATE, state,
                    waits ? &patience : NULL) < 0 &&
            errno == ETIMEDOUT && change(request, request_posted, request_claimed))
            return false;
    }
    return true;
}

static bool run_on_server(struct server *server, struct call *call)
{
    const uint64_t blocked = BLOCKED;
    uint64_t before;
    bool done = false;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &before, sizeof(before));
    struct request *request = claim_request(server);
    if (request) {
        request->call = call;
        gf_store_release(&request->state, request_posted);
        gf_add_release(&server->posted, 1);
        syscall(SYS_futex, &server->posted, FUTEX_WAKE_PRIVATE, 1);
        done = await_done(request);
        gf_store_release(&request->state, request_free);
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    return done;
}

/* Returns 0 for a thread without a real-time policy. */
static int priority_of_caller(void)
{
    struct sched_param param = {0};
    return syscall(SYS_sched_getparam, 0, &param) < 0 ? 0 : param.sched_priority;
}

/*
 * A thread with a higher real-time priority starts a thread, which inherits it. The server may have
 * to wait until other real-time threads leave it a CPU.
 */
static bool may_use_server(const struct server *server)
{
    return gf_load_acquire(&server->process) == syscall(SYS_getpid) &&
           priority_of_caller() <= server->priority;
}

static void serve_requests(struct server *server)
{
    for (size_t i = 0; i < GF_ARRAY_LEN(server->requests); i++) {
        struct request *request = &server->requests[i];
        if (!change(request, request_posted, request_running))
            continue;
        request->call->work(request->call->closure);
        request->call->done = true;
        gf_store_release(&request->state, request_done);
        syscall(SYS_futex, &request->state, FUTEX_WAKE_PRIVATE, 1);
    }
}

void gf_own_table_serve(enum gf_server which, void (*begin)(void))
{
    struct server *const server = &servers[which];

    if (!gf_own_table_leave())
        return;
    if (begin)
        begin();
    for (size_t i = 0; i < GF_ARRAY_LEN(server->requests); i++) /* those of a parent's threads */
        gf_store_relaxed(&server->requests[i].state, request_free);
    server->priority = priority_of_caller();
    gf_store_release(&server->process, (pid_t)syscall(SYS_getpid));
    for (;;) {
        const uint32_t seen = gf_load_acquire(&server->posted);
        serve_requests(server);
        syscall(SYS_futex, &server->posted, FUTEX_WAIT_PRIVATE, seen, NULL);
    }
}

static _Atomic bool is_forked; /* this process is a forked child */

void gf_own_table_in_child(void)
{
    gf_store_relaxed(&is_forked, true);
}

/*
 * libc's flag stays false in the child of a process with several threads. valgrind ends the program at a clone with
 * other flags than those of pthread_create.
 */
bool gf_own_table_is_own(void)
{
    return table != table_shared || __libc_single_threaded ||
           (gf_load_relaxed(&is_forked) && !gf_permit_sealed() && gf_thread_is_only_one()) ||
           gf_startup_env()->valgrind;
}

bool gf_own_table_on_short_thread(void)
{
    return table == table_of_short_thread;
}

bool gf_own_table_run_on_server(void (*work)(void *closure), void *closure)
{
    struct server *const server = &servers[gf_server_reads];
    gf_keep_errno();
    struct call call = {.work = work, .closure = closure};
    return !gf_permit_sealed() && !gf_own_table_is_own() && may_use_server(server) &&
           run_on_server(server, &call);
}

bool gf_own_table_run_as(enum gf_server which, void (*work)(void *closure), void *closure)
{
    struct server *const server = &servers[which];
    gf_keep_errno();
    struct call call = {.work = work, .closure = closure};

    if (gf_permit_sealed())
        return false;
    if (gf_own_table_is_own()) {
        work(closure);
        call.done = true;
    } else if (!may_use_server(server) || !run_on_server(server, &call)) {
        run_on_thread(&call);
    }
    return call.done;
}

bool gf_own_table_run(void (*work)(void *closure), void *closure)
{
    return gf_own_table_run_as(gf_server_reads, work, closure);
}

void gf_own_table_joined(void)
{
    table = table_for_life;
}

bool gf_own_table_leave(void)
{
    if (!gf_permit(gf_permit_close_range) || syscall(SYS_close_range, 0U, ~0U, UNSHARE) < 0)
        return false;
    table = table_for_life;
    for (int fd = 0; fd <= 2; fd++)
        if (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR) < 0)
            syscall(SYS_openat, AT_FDCWD, "/", O_PATH); /* a container may have no /dev/null */
    return true;
}
