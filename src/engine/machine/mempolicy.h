/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory policies of the calling thread and of address ranges. Any thread; keeps errno. Some
 * containers refuse these calls (engine/machine/probe.h).
 */
#ifndef GF_ENGINE_MACHINE_MEMPOLICY_H
#define GF_ENGINE_MACHINE_MEMPOLICY_H

#include "base/cpus.h"

/* The kernel's numbers, checked against <numaif.h> in mempolicy.c. */
#define GF_MPOL_DEFAULT 0
#define GF_MPOL_PREFERRED 1
#define GF_MPOL_BIND 2
#define GF_MPOL_PREFERRED_MANY 5 /* Linux 5.15 */

/* The calling thread's policy without mode flags, or -errno. */
int gf_mempolicy_get(void);

/*
 * Reads the calling thread's policy with its mode flags, and the policy's nodes. False if the
 * kernel refuses the call.
 */
bool gf_mempolicy_read(int *ret_mode, struct gf_nodes *ret_nodes);

/*
 * Whether the calling thread has this policy; mode flags are ignored. False if the kernel refuses
 * the call.
 */
bool gf_mempolicy_is(int mode, const struct gf_nodes *nodes);

/*
 * Sets the policy of the calling thread. Threads that it creates inherit the policy. 0 or -errno.
 */
int gf_mempolicy_set(int mode, const struct gf_nodes *nodes);

/*
 * Whether a seccomp filter refuses a call that sets policies. Returns 0, or the filter's errno and
 * the call's name. The tried calls pass an invalid address as node mask, so the kernel fails them
 * with EFAULT and sets nothing.
 */
int gf_mempolicy_refusal(const char **ret_call);

/* Sets the policy of a range, for pages touched later. 0 or -errno. */
int gf_mempolicy_set_range(void *start, size_t size, int mode, const struct gf_nodes *nodes);

/*
 * The same, and moves the present pages. Blocks page faults of other threads, so pass 2 MiB at a
 * time.
 */
int gf_mempolicy_move_range(void *start, size_t size, int mode, const struct gf_nodes *nodes);

/* Whether the policy takes pages only from the policy's nodes. Mode flags are ignored. */
bool gf_mempolicy_binds(int mode);

/* The name of a policy, such as "preferred" or "bind". Mode flags are ignored. */
const char *gf_mempolicy_name(int mode);

/* The policy as numa_maps shows it: "prefer:1", "prefer (many):0-1", "bind:0-1". Returns buf. */
char *gf_mempolicy_kernel_text(int mode, const struct gf_nodes *nodes, char *buf, size_t size);

/*
 * Writes the policy and its nodes, as in "bind:0-1", or the name alone if there are no nodes.
 * Returns buf.
 */
char *gf_mempolicy_format(int mode, const struct gf_nodes *nodes, char *buf, size_t size);

#endif
