/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/cpus.h"
#include "os/headroom.h"

/*
 * The memory policy of a range that the library maps: a pinned buffer or a segment of the ring. If
 * the user or the program chose a policy, the library's ranges get the same policy. Otherwise their
 * policy prefers the device's node.
 */

struct gf_range_policy {
    /*
     * The policy with its mode flags. GF_MPOL_DEFAULT: the range gets no policy, and helpers on the
     * device's node touch its pages first.
     */
    int mode;
    struct gf_nodes nodes;
};

/*
 * Chooses the policy for a range that the calling thread requests. `node`: the node of the device;
 * -1 if it is unknown. Called on a thread of the program. Makes one system call.
 */
void gf_range_policy_choose(int node, struct gf_range_policy *ret);

/*
 * Whether the user or the program chose the calling thread's policy. Helpers then must not touch
 * absent pages of the program's memory, because their policy would place these pages. Called on a
 * thread of the program. Makes one system call.
 */
bool gf_range_policy_is_users(void);

/*
 * Changes the calling thread's policy so that it prefers the device's node, for a call of the
 * driver that allocates pages. False: nothing has changed, because the node is unknown, the user or
 * the program chose the thread's policy, the thread already prefers that node, or the kernel
 * refuses. If true, the caller passes *ret_before to gf_call_policy_end after the driver's call.
 * Called on a thread of the program; keeps errno.
 */
bool gf_call_policy_begin(int node, struct gf_range_policy *ret_before);
void gf_call_policy_end(const struct gf_range_policy *before);

/*
 * Sets the policy of a range of which no page was touched. If the kernel refuses memory policies,
 * does nothing, and first touch by helper threads places the pages.
 */
void gf_range_policy_apply(const struct gf_range_policy *policy, void *at, size_t bytes);

/*
 * Reads the headroom for pages under the policy. If the policy names one node, that node's free
 * memory limits the headroom. If the policy binds to several nodes, the limit is the free memory of
 * the node that has the most. If the library touched more pages than that, the OOM killer could
 * kill the program.
 */
void gf_range_policy_headroom(const struct gf_range_policy *policy, struct gf_headroom *ret);

/* The NUMA node of an address range. May be called on any thread. */

/*
 * Returns the node of a sample of the range's pages; -1 if these pages are on several nodes or the
 * query fails.
 */
int gf_range_node_read(const void *at, size_t bytes);
