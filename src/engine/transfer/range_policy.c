/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/range_policy.h"

#include "engine/transfer/pages.h"
#include "engine/transfer/setup.h"
#include "host/mempolicy.h"
#include "os/permit.h"

/* Whether the thread has a policy that the user or the program chose. False if it may not be read. */
static bool read_users(struct gf_range_policy *ret)
{
    return gf_setup.user_policy && gf_permit(gf_permit_get_mempolicy) &&
           gf_setup.user_policy(&ret->mode, &ret->nodes);
}

/* The policy that prefers this node. False, and no policy: the node is unknown, or the option is off. */
static bool prefer_node(int node, struct gf_range_policy *ret)
{
    *ret = (struct gf_range_policy){.mode = GF_MPOL_DEFAULT};
    if (gf_setup.options->mem == gf_mem_off || node < 0 || node >= GF_NODES_MAX)
        return false;
    ret->mode = GF_MPOL_PREFERRED;
    gf_set_add(&ret->nodes, (unsigned)node);
    return true;
}

void gf_range_policy_choose(int node, struct gf_range_policy *ret)
{
    *ret = (struct gf_range_policy){.mode = GF_MPOL_DEFAULT};
    if (!read_users(ret)) {
        prefer_node(node, ret);
    } else if (gf_set_empty(&ret->nodes)) {
        /* It may be MPOL_LOCAL, which means the node of the thread that touches the page. */
        ret->mode = GF_MPOL_DEFAULT;
    }
}

bool gf_range_policy_is_users(void)
{
    struct gf_range_policy policy;
    return read_users(&policy);
}

bool gf_call_policy_begin(int node, struct gf_range_policy *ret_before)
{
    struct gf_range_policy wanted;

    if (!gf_permit(gf_permit_get_mempolicy) ||
        !gf_mempolicy_read(&ret_before->mode, &ret_before->nodes))
        return false;
    return !gf_range_policy_is_users() && prefer_node(node, &wanted) &&
           (ret_before->mode != wanted.mode || !gf_set_equal(&ret_before->nodes, &wanted.nodes)) &&
           gf_mempolicy_set(wanted.mode, &wanted.nodes) == 0;
}

void gf_call_policy_end(const struct gf_range_policy *before)
{
    gf_mempolicy_set(before->mode, &before->nodes);
}

void gf_range_policy_apply(const struct gf_range_policy *policy, void *at, size_t bytes)
{
    if (policy->mode != GF_MPOL_DEFAULT)
        gf_mempolicy_set_range(at, bytes, policy->mode, &policy->nodes);
}

void gf_range_policy_headroom(const struct gf_range_policy *policy, struct gf_headroom *ret)
{
    const bool limits = gf_mempolicy_binds(policy->mode) || gf_set_count(&policy->nodes) == 1;
    int node = limits ? gf_set_next(&policy->nodes, 0) : -1;

    gf_headroom_read("", node, ret);
    while (node >= 0 && (node = gf_set_next(&policy->nodes, (unsigned)node + 1)) >= 0) {
        struct gf_headroom other;
        gf_headroom_read("", node, &other);
        if (other.bytes > ret->bytes)
            *ret = other;
    }
}

#define SAMPLE 32

int gf_range_node_read(const void *at, size_t bytes)
{
    const size_t page_size = gf_page_size();
    void *page[SAMPLE];
    int status[SAMPLE];

    for (size_t i = 0; i < SAMPLE; i++)
        page[i] = (void *)((uintptr_t)at + bytes / SAMPLE * i / page_size * page_size);
    if (!gf_permit(gf_permit_move_pages) ||
        syscall(SYS_move_pages, 0, (unsigned long)SAMPLE, page, NULL, status, 0) != 0)
        return -1;
    for (size_t i = 1; i < SAMPLE; i++)
        if (status[i] != status[0])
            return -1;
    return gf_max(status[0], -1);
}
