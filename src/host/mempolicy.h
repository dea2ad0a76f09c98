/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and sets the memory policies of the calling thread and of address ranges. Some containers
 * refuse these system calls (host/facts.h). The functions may be called on any thread,
 * and keep errno.
 */
#pragma once

#include "base/cpus.h"

/* The kernel's numbers of the policies. mempolicy.c compares them with <numaif.h>. */
#define GF_MPOL_DEFAULT 0
#define GF_MPOL_PREFERRED 1
#define GF_MPOL_BIND 2
#define GF_MPOL_PREFERRED_MANY 5 /* since Linux 5.15 */

/* Returns the mode of the calling thread's policy without mode flags, or -errno. */
int gf_mempolicy_get(void);

/*
 * Reads the mode of the calling thread's policy, including mode flags, and the policy's nodes.
 * Returns false if the kernel refuses the call.
 */
bool gf_mempolicy_read(int *ret_mode, struct gf_nodes *ret_nodes);

/*
 * Whether the calling thread's policy has this mode and these nodes. Mode flags are ignored.
 * Returns false if the kernel refuses the call.
 */
bool gf_mempolicy_is(int mode, const struct gf_nodes *nodes);

/*
 * Sets the policy of the calling thread. Threads that this thread creates inherit the policy.
 * Returns 0 or -errno.
 */
int gf_mempolicy_set(int mode, const struct gf_nodes *nodes);

/*
 * Tries whether a seccomp filter refuses set_mempolicy or mbind. Returns 0 if not. Otherwise
 * returns the filter's errno, and sets *ret_call to the name of the call. The tried calls pass an
 * invalid address as node mask, so the kernel sets no policy and fails with EFAULT.
 */
int gf_mempolicy_refusal(const char **ret_call);

/*
 * Sets the policy of an address range. It applies to pages that are touched later. Returns 0 or
 * -errno.
 */
int gf_mempolicy_set_range(void *start, size_t size, int mode, const struct gf_nodes *nodes);

/*
 * Sets the policy of a range, and moves the pages that are present. Page faults of other threads
 * wait during the call, so pass 2 MiB at a time.
 */
int gf_mempolicy_move_range(void *start, size_t size, int mode, const struct gf_nodes *nodes);

/* Whether a policy of this mode takes pages only from its own nodes. Mode flags are ignored. */
bool gf_mempolicy_binds(int mode);

/* Returns the name of a mode, such as "preferred" or "bind". Mode flags are ignored. */
const char *gf_mempolicy_name(int mode);

/*
 * Writes the policy as numa_maps shows it: "prefer:1", "prefer (many):0-1", "bind:0-1". Returns
 * buf.
 */
char *gf_mempolicy_kernel_text(int mode, const struct gf_nodes *nodes, char *buf, size_t size);

/*
 * Writes the name of the mode and the nodes, as in "bind:0-1"; without nodes, only the name.
 * Returns buf.
 */
char *gf_mempolicy_format(int mode, const struct gf_nodes *nodes, char *buf, size_t size);
