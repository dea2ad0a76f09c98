/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the private copy of hwloc sees instead of getenv, dlopen and libudev: a short list of
 * variables, no plugin, no udev. HWLOC_* in the environment is meant for the user's own program,
 * and a plugin would bring OpenCL, X11 or CUDA itself into it.
 */
#ifndef GF_HOST_PRIVATE_HWLOC_ENV_H
#define GF_HOST_PRIVATE_HWLOC_ENV_H

struct gf_hwloc_variable {
    const char *name, *value;
};

/* list ends with a NULL name and lives as long as the process. */
void gf_hwloc_environment(const struct gf_hwloc_variable *list);

#endif
