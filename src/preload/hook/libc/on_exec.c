/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of the functions that start another program: exec, posix_spawn, system and popen. If
 * only threads that submit work are bound, the calling thread gets the start mask for the duration
 * of the call, so that the new program inherits the start mask. All other calls pass through.
 * execl, execlp and execle are not hooked, because C cannot pass on a list of arguments.
 *
 * exec may be called in a child of vfork. Such a child uses the memory of its parent, but has its
 * own CPU mask.
 */
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/counters.h"
#include "preload/hook/originals/originals.h"
#include "preload/hook/thread_class.h"
#include "preload/trace/run_root.h"

#include <time.h>

/*
 * Returns the thread id in libc's thread descriptor; 0 if unknown. That id is the id of the calling
 * thread or, in a child of vfork, of the thread that called vfork. A thread's clock id contains
 * this id.
 */
static pid_t descriptor_id(void)
{
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

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
    const pid_t thread = call.engine->program_begin ? descriptor_id() : 0;
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

#define STARTED(symbol, ...)                                                                       \
    ({                                                                                             \
        const bool released = begin_start(gf_hook_##symbol);                                       \
        const __auto_type result = gf_originals()->symbol(__VA_ARGS__);                            \
        end_start(released);                                                                       \
        result;                                                                                    \
    })

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
