/* SPDX-License-Identifier: Apache-2.0 */
/* Libgfenv.so: what hwloc and libnuma may see. */
#pragma once

/*
 * Replaces getenv, dlopen and libudev for the private copy of hwloc, which then sees only a short
 * list of variables, no plugin and no udev. Variables HWLOC_* in the environment are meant for the
 * program's own hwloc, and a plugin would load OpenCL, X11 or CUDA.
 *
 * Replaces syscall in the private copy of libnuma. libnuma's constructor calls set_mempolicy to
 * find out which policies the kernel supports, and then restores the old policy. A seccomp filter
 * may kill the process for this call, even if the process needs no policy. So set_mempolicy fails
 * with ENOSYS until gf_numa_env_allow is called.
 */

/*
 * Allows libnuma to call set_mempolicy from now on. Called before the library sets its first
 * policy. May be called on any thread.
 */
void gf_numa_env_allow(void);
