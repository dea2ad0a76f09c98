/* SPDX-License-Identifier: Apache-2.0 */
#include "host/private_env.h"

#include "base/atomic.h"
#include "base/base.h"

#include <stdarg.h>

/*
 * scripts/privatize.py makes the private copy of hwloc call these functions instead of getenv and
 * dlopen.
 */
GF_EXPORT char *gfhenv(const char *name);
GF_EXPORT void *gfhopn(const char *path, int flags);

/*
 * Without plugins, and without messages on standard error if firmware data contradicts itself. No
 * other variable is set.
 */
char *gfhenv(const char *name)
{
    static char quiet[] = "2", none[] = "";

    return strcmp(name, "HWLOC_HIDE_ERRORS") == 0    ? quiet
           : strcmp(name, "HWLOC_PLUGINS_PATH") == 0 ? none
                                                     : NULL;
}

void *gfhopn(const char *path, int flags)
{
    (void)path;
    (void)flags;
    return NULL;
}

/*
 * The functions of libudev that hwloc 2 uses. With a NULL context, hwloc works without udev. hwloc passes
 * up to three pointers, which the functions ignore.
 */
#define WITHOUT_UDEV(symbol)                                                                       \
    GF_EXPORT void *symbol(void);                                                                  \
    void *symbol(void)                                                                             \
    {                                                                                              \
        return NULL;                                                                               \
    }
WITHOUT_UDEV(udev_new)
WITHOUT_UDEV(udev_unref)
WITHOUT_UDEV(udev_device_new_from_subsystem_sysname)
WITHOUT_UDEV(udev_device_get_property_value)
WITHOUT_UDEV(udev_device_unref)

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
