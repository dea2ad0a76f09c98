/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces getenv, dlopen and libudev for the private copy of hwloc, which then sees only a short
 * list of variables, no plugin and no udev. Variables HWLOC_* in the environment are meant for the
 * program's own hwloc, and a plugin would load OpenCL, X11 or CUDA.
 */
#ifndef GF_ENGINE_MACHINE_PRIVATE_HWLOC_ENV_H
#define GF_ENGINE_MACHINE_PRIVATE_HWLOC_ENV_H

struct gf_hwloc_env_variable {
    const char *name, *value;
};

/*
 * Sets the variables that the copy sees. list: ends with a NULL name, and must stay valid until the
 * process ends.
 */
void gf_hwloc_env_set(const struct gf_hwloc_env_variable *list);

#endif
