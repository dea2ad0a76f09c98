/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/private/numa_env.h"

#include "base/atomic.h"
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* scripts/privatize.py makes the private copy of libnuma call this function instead of syscall. */
GF_EXPORT long gfscall(long number, ...);

static _Atomic bool allowed;

GF_EXPORT void gf_numa_env_allow(void)
{
    gf_store_relaxed(&allowed, true);
}

/*
 * Always passes six arguments, as libc's syscall does. The kernel ignores those that a call does
 * not use.
 */
long gfscall(long number, ...)
{
    long arg[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < GF_ARRAY_LEN(arg); i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_set_mempolicy && !gf_load_relaxed(&allowed)) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
