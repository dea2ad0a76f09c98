/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces syscall in the private copy of libnuma. libnuma's constructor sets a memory policy and
 * restores it, to learn what the kernel supports. A seccomp filter may kill the process at that
 * call, even if the process needs no policy. So the replacement of set_mempolicy fails with ENOSYS
 * until it is allowed.
 */
#ifndef GF_ENGINE_MACHINE_PRIVATE_NUMA_ENV_H
#define GF_ENGINE_MACHINE_PRIVATE_NUMA_ENV_H

/* Allows set_mempolicy from now on. Called before the library sets its first policy. Any thread. */
void gf_numa_env_allow(void);

#endif
