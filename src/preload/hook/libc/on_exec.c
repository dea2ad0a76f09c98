/* SPDX-License-Identifier: Apache-2.0 */
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
#include "os/own_table.h"
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/counters.h"
#include "preload/hook/originals/originals.h"
#include "preload/hook/thread_class.h"
#include "preload/trace/run_root.h"

#include <stdarg.h>

/*
 * Leaves the engine before the other program starts, because a successful exec does not return. A
 * child of vfork would otherwise never reset the guard, which is in its parent's memory.
 */
static bool begin_start(enum gf_hook hook)
{
    struct gf_engine_call call;
    bool released = false;

    gf_count(hook);
    gf_run_root_started_program();
    if (gf_likely(!gf_engine()) || !gf_engine_call_begin(&call))
        return false;
    const pid_t thread = call.engine->program_begin ? gf_descriptor_id() : 0;
    if (thread && gf_thread_class_get(thread) == gf_thread_program)
        released = call.engine->program_begin();
    gf_engine_call_end(&call);
    return released;
}

static void end_start(bool released)
{
    struct gf_engine_call call;

    if (gf_likely(!released) || !gf_engine_call_begin(&call))
        return;
    call.engine->program_end();
    gf_engine_call_end(&call);
}

#define STARTED_BY(hook, original, ...)                                                            \
    ({                                                                                             \
        const bool released = begin_start(gf_hook_##hook);                                         \
        const __auto_type result = gf_originals()->original(__VA_ARGS__);                          \
        end_start(released);                                                                       \
        result;                                                                                    \
    })
#define STARTED(symbol, ...) STARTED_BY(symbol, symbol, __VA_ARGS__)

int gf_on_execve(const char *path, char *const argv[], char *const envp[])
{
    return STARTED(execve, path, argv, envp);
}

int gf_on_execv(const char *path, char *const argv[])
{
    return STARTED(execv, path, argv);
}

int gf_on_execvp(const char *file, char *const argv[])
{
    return STARTED(execvp, file, argv);
}

int gf_on_execvpe(const char *file, char *const argv[], char *const envp[])
{
    return STARTED(execvpe, file, argv, envp);
}

int gf_on_fexecve(int fd, char *const argv[], char *const envp[])
{
    return STARTED(fexecve, fd, argv, envp);
}

int gf_on_execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    return STARTED(execveat, fd, path, argv, envp, flags);
}

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

int gf_on_posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    return STARTED(posix_spawn, ret, path, actions, attr, argv, envp);
}

int gf_on_posix_spawnp(pid_t *ret, const char *file, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    return STARTED(posix_spawnp, ret, file, actions, attr, argv, envp);
}

int gf_on_system(const char *command)
{
    return STARTED(system, command);
}

FILE *gf_on_popen(const char *command, const char *mode)
{
    return STARTED(popen, command, mode);
}
