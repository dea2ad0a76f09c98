/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces syscall in the private copy of libnuma. libnuma's constructor calls set_mempolicy to
 * find out which policies the kernel supports, and then restores the old policy. A seccomp filter
 * may kill the process for this call, even if the process needs no policy. So set_mempolicy fails
 * with ENOSYS until gf_numa_env_allow is called.
 */
#ifndef GF_ENGINE_MACHINE_PRIVATE_NUMA_ENV_H
#define GF_ENGINE_MACHINE_PRIVATE_NUMA_ENV_H

/*
 * Allows libnuma to call set_mempolicy from now on. Called before the library sets its first
 * policy. May be called on any thread.
 */
void gf_numa_env_allow(void);

#endif
