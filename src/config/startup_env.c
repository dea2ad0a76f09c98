/* SPDX-License-Identifier: Apache-2.0 */
#include "config/startup_env.h"

#include "base/atomic.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/symbols.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/stat.h>

/*
 * A pointer to argc, which argv and the environment follow on the initial stack. The symbol is
 * weak, because only glibc's loader defines it.
 */
extern void *__libc_stack_end __attribute__((weak));

static struct gf_startup_env startup;
static struct gf_options options;
enum { unrecorded, recording, recorded };
static _Atomic int state;

/*
 * Returns the environment on the initial stack. It is needed because an IFUNC resolver or libc's
 * startup code may call malloc before libc has set `environ`.
 */
static char *const *kernel_environment(void)
{
    if (!&__libc_stack_end || !__libc_stack_end)
        return NULL;
    const intptr_t argc = *(const intptr_t *)__libc_stack_end;
    char *const *argv = (char *const *)__libc_stack_end + 1;
    if (argc < 0 || argc > 1 << 24 || argv[argc])
        return NULL;
    return argv + argc + 1;
}

/*
 * Makes a relative path absolute, because some programs change the current folder before they use
 * CUDA. The path is a pattern, so percent signs in the name of the current folder are doubled.
 */
static void make_absolute(char path[GF_OPTION_PATH_MAX])
{
    char folder[GF_OPTION_PATH_MAX], whole[GF_OPTION_PATH_MAX];
    const size_t length = strlen(path);
    size_t at = 0;

    /*
     * Unlike libc's getcwd, the system call never allocates. If the current folder is unreachable
     * from the root folder, the result does not begin with a slash.
     */
    if (!length || *path == '/' || syscall(SYS_getcwd, folder, sizeof(folder)) <= 0 ||
        *folder != '/')
        return;
    for (const char *p = folder; *p; p++) {
        if (at + 3 + length >= sizeof(whole))
            return;
        if (*p == '%')
            whole[at++] = '%';
        whole[at++] = *p;
    }
    if (whole[at - 1] != '/') /* only the root folder ends with a slash */
        whole[at++] = '/';
    memcpy(whole + at, path, length + 1);
    memcpy(path, whole, at + length + 1);
}

/* Whether `names`, separated by commas, contains the program's file name. */
static bool is_kept_out(const char *names)
{
    const char *program =
        (const char *)getauxval(AT_EXECFN); /* NOLINT(performance-no-int-to-ptr) */

    program = program ? gf_path_file_name(program) : NULL;
    for (const char *at = names; program && *at; at += *at == ',') {
        const size_t length = strcspn(at, ",");
        if (length && strncmp(at, program, length) == 0 && !program[length])
            return true;
        at += length;
    }
    return false;
}

/* Returns "" if the variable is not set. */
static const char *value_of(const char *name)
{
    const size_t length = strlen(name);

    for (char *const *envp = startup.envp; envp && *envp; envp++)
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return "";
}

/* Whether `gpufeed run` has become this process. */
static bool is_run(void)
{
    uint64_t run;
    return gf_parse_u64(value_of(GF_NAME_RUN), &run) == 0 && run == (uint64_t)startup.pid;
}

static bool searches_here(void)
{
    const char *path = value_of("LD_LIBRARY_PATH");

    while (*path) {
        if (*path != '/')
            return true;
        path += strcspn(path, ":;");
        if (*path && !*++path)
            return true;
    }
    return false;
}

static void record_state(void)
{
    startup.envp = environ ? environ : kernel_environment();
    startup.pid = getpid();
    /*
     * The system calls are made directly, because another library may replace libc's functions by
     * ones that allocate.
     */
    const long size = syscall(SYS_sched_getaffinity, 0, sizeof(startup.cpus), &startup.cpus);
    startup.known = size > 0;
    struct stat found;
    startup.stderr_closed = syscall(SYS_newfstatat, STDERR_FILENO, "", &found, AT_EMPTY_PATH) != 0;
    if (!startup.stderr_closed) {
        startup.stderr_device = found.st_dev;
        startup.stderr_inode = found.st_ino;
    }
    /* A setuid program, for example, must not obey its user's environment. */
    const bool secure = getauxval(AT_SECURE) != 0;
    gf_options_load(&options, secure ? NULL : startup.envp);
    startup.run = !secure && is_run();
    startup.valgrind = strstr(value_of("LD_PRELOAD"), "/vgpreload_");
    startup.searches_here = searches_here();
    make_absolute(options.report);
    make_absolute(options.log);
    make_absolute(options.metrics);
    if (secure || is_kept_out(options.keep_out))
        options.mode = gf_mode_off;
}

static GF_COLD void record_once(void)
{
    gf_keep_errno();
    /* A handler that interrupted this thread, and called a hook, would wait here for ever. */
    const uint64_t signals = gf_symbols_block_signals();
    int expected = unrecorded;

    if (gf_cas_acquire(&state, &expected, recording)) {
        record_state();
        gf_store_release(&state, recorded);
    }
    gf_symbols_unblock_signals(signals);
    while (gf_load_acquire(&state) != recorded)
        sched_yield();
}

const struct gf_startup_env *gf_startup_env(void)
{
    if (gf_unlikely(gf_load_acquire(&state) != recorded))
        record_once();
    return &startup;
}

const struct gf_options *gf_startup_env_options(void)
{
    gf_startup_env();
    return &options;
}
