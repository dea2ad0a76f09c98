/* SPDX-License-Identifier: Apache-2.0 */
/* Memory policies: of the calling thread, of address ranges, and moving what is already there. */
#ifndef GF_HOST_POLICY_H
#define GF_HOST_POLICY_H

#include "base/cpus.h"

/* The kernel's numbers, for those who do not include <numaif.h>; checked against it in policy.c. */
#define GF_MPOL_DEFAULT 0
#define GF_MPOL_PREFERRED 1
#define GF_MPOL_BIND 2

/* The calling thread's mode without its flags, or -errno. */
int gf_policy_get(void);

/* Whether the calling thread has this policy, flags aside; false also when that is refused. */
bool gf_policy_is(int mode, const struct gf_nodes *nodes);

/* For the calling thread and those that it creates. 0 or -errno. */
int gf_policy_set(int mode, const struct gf_nodes *nodes);

/* For pages of a range that are touched from now on. 0 or -errno. */
int gf_policy_set_range(void *start, size_t size, int mode, const struct gf_nodes *nodes);

struct gf_move {
    size_t asked; /* bytes given to the kernel, which may have left some where they were: read back */
    int error;    /* the last errno; 0 */
    bool done;    /* false: the budget ran out */
};

/*
 * Gives the range the policy and moves its pages, in pieces of at most 2 MiB (one call over 128 MiB
 * stopped another thread's page faults for over a second), until budget_ns is spent. A thread of
 * ours only.
 */
void gf_policy_move(void *start, size_t size, int mode, const struct gf_nodes *nodes,
                    uint64_t budget_ns, struct gf_move *ret);

#endif
