/* SPDX-License-Identifier: Apache-2.0 */
#include "host/private/hwloc_env.h"

#include "base/base.h"

#include <string.h>

/* References to these names were written into the copy by scripts/privatize.py. */
GF_EXPORT char *gfhenv(const char *name);
GF_EXPORT void *gfhopn(const char *path, int flags);

/* libudev, as far as hwloc 2 uses it; a NULL context makes it read /run/udev by itself or go without. */
GF_EXPORT void *udev_new(void);
GF_EXPORT void *udev_unref(void *udev);
GF_EXPORT void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem,
                                                       const char *name);
GF_EXPORT const char *udev_device_get_property_value(void *device, const char *key);
GF_EXPORT void *udev_device_unref(void *device);

static const struct gf_hwloc_variable *variables;

GF_EXPORT void gf_hwloc_environment(const struct gf_hwloc_variable *list)
{
    __atomic_store_n(&variables, list, __ATOMIC_RELEASE);
}

char *gfhenv(const char *name)
{
    const struct gf_hwloc_variable *v = __atomic_load_n(&variables, __ATOMIC_ACQUIRE);
    for (; v && v->name; v++)
        if (strcmp(v->name, name) == 0)
            return (char *)(uintptr_t)v->value;
    return NULL;
}

void *gfhopn(const char *path, int flags)
{
    (void)path;
    (void)flags;
    return NULL;
}

void *udev_new(void)
{
    return NULL;
}

void *udev_unref(void *udev)
{
    (void)udev;
    return NULL;
}

void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name)
{
    (void)udev;
    (void)subsystem;
    (void)name;
    return NULL;
}

const char *udev_device_get_property_value(void *device, const char *key)
{
    (void)device;
    (void)key;
    return NULL;
}

void *udev_device_unref(void *device)
{
    (void)device;
    return NULL;
}
