/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getenv, dlopen and libudev for the private copy of hwloc: a short list of variables, no plugin,
 * no udev. HWLOC_* in the environment is meant for the program's own hwloc, and a plugin would load
 * OpenCL, X11 or CUDA.
 */
#ifndef GF_ENGINE_MACHINE_PRIVATE_HWLOC_ENV_H
#define GF_ENGINE_MACHINE_PRIVATE_HWLOC_ENV_H

struct gf_hwloc_env_variable {
    const char *name, *value;
};

/* Sets the variables. list ends with a NULL name and must stay valid until the process ends. */
void gf_hwloc_env_set(const struct gf_hwloc_env_variable *list);

#endif
