/* SPDX-License-Identifier: Apache-2.0 */
#include "config/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The loader's: where the kernel put argc, argv and the environment. Weak: other loaders lack it. */
extern void *__libc_stack_end __attribute__((weak));

static struct gf_birth birth;
static struct gf_options options;
enum { unrecorded, recording, recorded };
static int state;

/*
 * An IFUNC resolver or libc's own start may allocate before libc has set environ; the kernel's
 * block is there from the first instruction on.
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
 * A relative path is meant from the folder that the program was started in, wherever it goes later
 * (some change it before they touch CUDA). The folder's percent signs stand for themselves.
 */
static void anchor(char path[GF_OPTION_PATH_MAX])
{
    char folder[GF_OPTION_PATH_MAX], whole[GF_OPTION_PATH_MAX];
    const size_t length = strlen(path);
    size_t at = 0;

    /* By number, for it allocates nothing; a folder out of reach is told without a slash. */
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
    if (whole[at - 1] != '/') /* as in the root */
        whole[at++] = '/';
    memcpy(whole + at, path, length + 1);
    memcpy(path, whole, at + length + 1);
}

static void record(void)
{
    birth.envp = environ ? environ : kernel_environment();
    birth.pid = getpid();
    /* By number: a wrapper of somebody else's might allocate. */
    const long size = syscall(SYS_sched_getaffinity, 0, sizeof(birth.cpus), &birth.cpus);
    birth.known = size > 0;
    birth.mute = syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) < 0;
    /* In a program that has more rights than its user, the user's environment decides nothing. */
    const bool secure = getauxval(AT_SECURE) != 0;
    gf_options_load(&options, secure ? NULL : birth.envp);
    anchor(options.report);
    anchor(options.log);
    if (secure)
        options.mode = gf_mode_off;
}

static GF_COLD void record_once(void)
{
    const int error = errno;
    int expected = unrecorded;
    if (__atomic_compare_exchange_n(&state, &expected, recording, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE)) {
        record();
        __atomic_store_n(&state, recorded, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != recorded)
        sched_yield();
    errno = error;
}

const struct gf_birth *gf_birth(void)
{
    if (gf_unlikely(__atomic_load_n(&state, __ATOMIC_ACQUIRE) != recorded))
        record_once();
    return &birth;
}

const struct gf_options *gf_birth_options(void)
{
    gf_birth();
    return &options;
}
