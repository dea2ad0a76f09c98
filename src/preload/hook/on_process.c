/* SPDX-License-Identifier: Apache-2.0 */
/* Libc: exec, exit, fork, prctl, limits, mlock, munmap. */
#include "os/own_table.h"
#include "os/permit.h"
#include "preload/attach/attach.h"
#include "preload/attach/counters.h"
#include "preload/attach/originals.h"
#include "preload/attach/threads.h"
#include "preload/heap/fork.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/mappings.h"
#include "preload/heap/reclaim.h"
#include "preload/malloc/start.h"
#include "preload/trace/journal.h"
#include "preload/trace/run_root.h"
#include "preload/trace/step.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/*
 * The hooks of the functions that start another program: exec, posix_spawn, system and popen. If
 * only threads that submit work are bound, the calling thread gets the start mask for the duration
 * of the call, so that the new program inherits the start mask. All other calls pass through.
 * execl, execlp and execle make a vector of their arguments, as libc does, and call the original of
 * execv, execvp or execve.
 *
 * exec may be called in a child of vfork. Such a child uses the memory of its parent, but has its
 * own CPU mask.
 */

/*
 * Leaves the engine before the other program starts, because a successful exec does not return. A
 * child of vfork would otherwise never reset gf_thread.inside, which is in its parent's memory.
 */
static bool begin_start(enum gf_hook hook)
{
    bool released = false;

    gf_count(hook);
    gf_run_root_started_program();
    GF_WITH_ENGINE({
        const pid_t thread = engine->program_begin ? gf_descriptor_id() : 0;
        if (thread && gf_thread_class_get(thread) == gf_thread_program)
            released = engine->program_begin();
    });
    return released;
}

static void end_start(bool released)
{
    if (released)
        GF_WITH_ENGINE(engine->program_end());
}

#define STARTED_BY(hook, original, ...)                                                            \
    ({                                                                                             \
        const bool released = begin_start(gf_hook_##hook);                                         \
        const __auto_type result = gf_originals()->original(__VA_ARGS__);                          \
        end_start(released);                                                                       \
        result;                                                                                    \
    })

#define STARTER(type, symbol, ...)                                                                 \
    type gf_on_##symbol(GF_PARAMETERS(__VA_ARGS__))                                                \
    {                                                                                              \
        return STARTED_BY(symbol, symbol, GF_ARGUMENTS(__VA_ARGS__));                              \
    }

STARTER(int, execve, (const char *)path, (char *const *)argv, (char *const *)envp)
STARTER(int, execv, (const char *)path, (char *const *)argv)
STARTER(int, execvp, (const char *)file, (char *const *)argv)
STARTER(int, execvpe, (const char *)file, (char *const *)argv, (char *const *)envp)
STARTER(int, fexecve, (int)fd, (char *const *)argv, (char *const *)envp)
STARTER(int, execveat, (int)fd, (const char *)path, (char *const *)argv, (char *const *)envp,
        (int)flags)
STARTER(int, posix_spawn, (pid_t *)ret, (const char *)path,
        (const posix_spawn_file_actions_t *)actions, (const posix_spawnattr_t *)attr,
        (char *const *)argv, (char *const *)envp)
STARTER(int, posix_spawnp, (pid_t *)ret, (const char *)file,
        (const posix_spawn_file_actions_t *)actions, (const posix_spawnattr_t *)attr,
        (char *const *)argv, (char *const *)envp)
STARTER(int, system, (const char *)command)
STARTER(FILE *, popen, (const char *)command, (const char *)mode)

static size_t vector_size(const char *first, va_list *rest)
{
    size_t count = 1;

    for (const char *word = first; word; word = va_arg(*rest, const char *))
        count++;
    return count * sizeof(char *);
}

static void write_vector(char **ret, const char *first, va_list *rest)
{
    ret[0] = (char *)(uintptr_t)first;
    for (size_t i = 0; ret[i]; i++)
        ret[i + 1] = va_arg(*rest, char *);
}

/*
 * Makes the vector `argv` of the caller's arguments from `first` to the null pointer. `list` then
 * has the arguments after it. The vector is on the stack, as in libc: a child of vfork could not
 * free it.
 */
#define MAKE_VECTOR(argv, first, list)                                                             \
    va_list list;                                                                                  \
    va_start(list, first);                                                                         \
    char **const argv = __builtin_alloca(vector_size(first, &list));                               \
    va_end(list);                                                                                  \
    va_start(list, first);                                                                         \
    write_vector(argv, first, &list)

int gf_on_execl(const char *path, const char *first, ...)
{
    MAKE_VECTOR(argv, first, list);
    va_end(list);
    return STARTED_BY(execl, execv, path, argv);
}

int gf_on_execlp(const char *file, const char *first, ...)
{
    MAKE_VECTOR(argv, first, list);
    va_end(list);
    return STARTED_BY(execlp, execvp, file, argv);
}

int gf_on_execle(const char *path, const char *first, ...)
{
    MAKE_VECTOR(argv, first, list);
    char *const *const envp = va_arg(list, char *const *);
    va_end(list);
    return STARTED_BY(execle, execve, path, argv, envp);
}

/*
 * The hooks of _exit and _Exit, which first write log lines that would be lost, because the writer
 * thread has not written them yet. The hooks may be called in a signal handler, in a forked child,
 * and in a child of vfork, which must not write to its parent's memory. The first call of
 * gf_originals takes a lock of the loader. But if the process has a second thread, the hook of
 * pthread_create has already called it.
 */

void gf_on__exit(int status)
{
    gf_journal_before_exit(gf_step_log_flush);
    gf_originals()->_exit(status);
    __builtin_unreachable();
}

void gf_on__Exit(int status)
{
    gf_journal_before_exit(gf_step_log_flush);
    gf_originals()->_Exit(status);
    __builtin_unreachable();
}

/*
 * The hook of __register_atfork, which libc's static pthread_atfork calls. The hook first lets the
 * heap register its own handlers, and then passes the call through. Handlers that are registered
 * first run last before a fork, and first after it. So no lock of the heap is held while a handler
 * of the program runs. As with glibc's malloc, such a handler may allocate, wait for a thread that
 * allocates, start a thread, or fork.
 *
 * May be called before main, under the loader's lock, and by the heap's start.
 */

int gf_on___register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                            void *object)
{
    if (gf_unlikely(!gf_start_loaded()))
        return gf_fork_keep_early(prepare, parent, child, object);
    gf_start();
    gf_fork_registration_begin();
    const int error = gf_originals()->__register_atfork(prepare, parent, child, object);
    gf_fork_registration_end();
    return error;
}

/*
 * The hook of prctl, which passes the call through. By prctl, a program sets no_new_privs, and then
 * installs a seccomp filter. Before either call, the library stops making system calls for which
 * the filter may kill the process. PR_SET_TSC makes rdtsc fail, and with it the vDSO's clocks.
 */

int gf_on_prctl(int option, ...)
{
    unsigned long arg[4];
    va_list args;

    va_start(args, option);
    for (unsigned i = 0; i < GF_ARRAY_LEN(arg); i++)
        arg[i] = va_arg(args, unsigned long);
    va_end(args);
    const bool ends_tsc = option == PR_SET_TSC && arg[0] == PR_TSC_SIGSEGV;
    if ((option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP || ends_tsc) &&
        !gf_permit_sealed() &&
        gf_thread_is_own()) /* the filter of a child of vfork does not apply to its parent */
        gf_permit_seal();
    const bool strict =
        option == PR_SET_SECCOMP && arg[0] == SECCOMP_MODE_STRICT && gf_thread_is_own();
    const int result = gf_originals()->prctl(option, arg[0], arg[1], arg[2], arg[3]);
    if (strict && result == 0)
        gf_strict = true;
    return result;
}

/*
 * The hooks of setrlimit and prlimit, which pass the call through. The kernel counts the memory that
 * the heap keeps against RLIMIT_AS and RLIMIT_DATA, so the heap keeps nothing under such a limit. A
 * child of vfork sets its own limits, but runs in its parent's memory.
 */

/* Reads the limit back: `set` may share its memory with the old limit, and another thread may set one. */
static int note_limit(int result, int resource, const void *set)
{
    struct rlimit64 now;

    if (result == 0 && set && (resource == RLIMIT_AS || resource == RLIMIT_DATA) &&
        gf_thread_is_own() &&
        gf_originals()->prlimit64(0, (__rlimit_resource_t)resource, NULL, &now) == 0)
        gf_reclaim_limit(resource, now.rlim_cur);
    return result;
}

#define LIMIT_HOOK(symbol, ...)                                                                    \
    int gf_on_##symbol(GF_PARAMETERS(__VA_ARGS__))                                                 \
    {                                                                                              \
        return note_limit(gf_originals()->symbol(GF_ARGUMENTS(__VA_ARGS__)), (int)resource,        \
                          limit);                                                                  \
    }

LIMIT_HOOK(setrlimit, (__rlimit_resource_t)resource, (const struct rlimit *)limit)
LIMIT_HOOK(setrlimit64, (__rlimit_resource_t)resource, (const struct rlimit64 *)limit)
LIMIT_HOOK(prlimit, (pid_t)pid, (__rlimit_resource_t)resource, (const struct rlimit *)limit,
           (struct rlimit *)ret_old)
LIMIT_HOOK(prlimit64, (pid_t)pid, (__rlimit_resource_t)resource, (const struct rlimit64 *)limit,
           (struct rlimit64 *)ret_old)

/*
 * The hooks of the functions that lock memory. Freed memory that the heap keeps counts against
 * RLIMIT_MEMLOCK if it was locked. So if the kernel refuses, the heap returns it, and the call is
 * repeated.
 */
#define LOCK_HOOK(symbol, ...)                                                                     \
    int gf_on_##symbol(GF_PARAMETERS(__VA_ARGS__))                                                 \
    {                                                                                              \
        const int error = errno, result = gf_originals()->symbol(GF_ARGUMENTS(__VA_ARGS__));       \
        if (gf_likely(!result) || (errno != ENOMEM && errno != EAGAIN) || !gf_thread_is_own() ||   \
            !gf_reclaim_for_call())                                                                \
            return result;                                                                         \
        errno = error;                                                                             \
        return gf_originals()->symbol(GF_ARGUMENTS(__VA_ARGS__));                                  \
    }

LOCK_HOOK(mlock, (const void *)at, (size_t)bytes)
LOCK_HOOK(mlock2, (const void *)at, (size_t)bytes, (unsigned)flags)
LOCK_HOOK(mlockall, (int)flags)

/*
 * The hook of munmap. In a process that uses a GPU, helpers may first remove the page table entries
 * of a large range, and may free its file later. All other calls pass through. A memory monitor
 * may redirect the heap's calls of munmap to this hook; they pass through, too.
 */

/* For a smaller range, waking the helpers takes as long as the time that they save. */
#define LEAST ((size_t)32 << 20)

static GF_COLD int unmap_range(void *at, size_t bytes)
{
    void *kept = NULL;

    GF_WITH_TRANSFER({
        gf_count(gf_hook_munmap);
        kept = transfer->unmap ? transfer->unmap(at, bytes) : NULL;
    });
    const int result = gf_originals()->munmap(at, bytes);
    if (kept)
        GF_WITH_TRANSFER(transfer->unmapped(kept, result != 0));
    return result;
}

int gf_on_munmap(void *at, size_t bytes)
{
    if (gf_unlikely(bytes >= LEAST) && gf_engine() && !gf_monitored_call_now())
        return unmap_range(at, bytes);
    return gf_originals()->munmap(at, bytes);
}
