/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/private/hwloc_env.h"

#include "base/atomic.h"
#include "base/base.h"

#include <string.h>

/*
 * scripts/privatize.py makes the private copy of hwloc call these functions instead of getenv and
 * dlopen.
 */
GF_EXPORT char *gfhenv(const char *name);
GF_EXPORT void *gfhopn(const char *path, int flags);

/* The functions of libudev that hwloc 2 uses. With a NULL context, hwloc works without udev. */
GF_EXPORT void *udev_new(void);
GF_EXPORT void *udev_unref(void *udev);
GF_EXPORT void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem,
                                                       const char *name);
GF_EXPORT const char *udev_device_get_property_value(void *device, const char *key);
GF_EXPORT void *udev_device_unref(void *device);

static const struct gf_hwloc_env_variable *_Atomic variables;

GF_EXPORT void gf_hwloc_env_set(const struct gf_hwloc_env_variable *list)
{
    gf_store_release(&variables, list);
}

char *gfhenv(const char *name)
{
    const struct gf_hwloc_env_variable *v = gf_load_acquire(&variables);
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
