/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory policy of a range that the library maps: of a pinned buffer, or of a segment of the
 * ring. A policy that the user or the program chose holds for these ranges, too. Otherwise pages
 * are preferred on the device's node.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_RANGE_POLICY_H
#define GF_ENGINE_TRANSFER_MEMORY_RANGE_POLICY_H

#include "base/cpus.h"
#include "os/headroom.h"

struct gf_range_policy {
    /*
     * The policy with its mode flags; GF_MPOL_DEFAULT: first touch by helpers on the device's node.
     */
    int mode;
    struct gf_nodes nodes;
};

/*
 * The policy for a range that the calling thread requests. node: the device's; -1 if it is unknown.
 * Called on a thread of the program. One system call.
 */
void gf_range_policy_choose(int node, struct gf_range_policy *ret);

/*
 * Lets the calling thread prefer the device's node, for a call of the driver that allocates pages.
 * False: nothing has changed, because the node is unknown, the user or the program chose the
 * thread's policy, the thread prefers that node already, or the kernel refuses. After true the
 * caller passes *ret_before to gf_call_policy_end. Called on a thread of the program; keeps errno.
 */
bool gf_call_policy_begin(int node, struct gf_range_policy *ret_before);
void gf_call_policy_end(const struct gf_range_policy *before);

/*
 * Sets the policy of an untouched range. Does nothing where the kernel refuses memory policies.
 * There, first touch by helper threads places the pages.
 */
void gf_range_policy_apply(const struct gf_range_policy *policy, void *at, size_t bytes);

/*
 * The headroom for pages under the policy. If the policy names one node, that node's free memory
 * limits the headroom. If the policy binds to several nodes, the free memory of the node with most
 * of it is the limit. Beyond the limit, the OOM killer would kill the program.
 */
void gf_range_policy_headroom(const struct gf_range_policy *policy, struct gf_headroom *ret);

#endif
