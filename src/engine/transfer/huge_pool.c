/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/huge_pool.h"

#include "base/atomic.h"
#include "base/log.h"
#include "engine/transfer/setup.h"
#include "os/permit.h"

#define LOG2_SIZE 21

static _Atomic bool stopped, warned;

bool gf_huge_pool_is_on(void)
{
    return gf_setup.options->pin_pages == gf_pin_pages_huge && !gf_load_relaxed(&stopped);
}

void *gf_huge_pool_map(size_t bytes, const struct gf_range_policy *policy)
{
    if (!gf_huge_pool_is_on())
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | LOG2_SIZE << MAP_HUGE_SHIFT, -1, 0);
    if (at != MAP_FAILED) {
        gf_range_policy_apply(policy, at, bytes);
        return at;
    }
    const int error = errno;
    if (!gf_exchange_relaxed(&warned, true))
        gf_warn(
            "%zu MiB of pinned memory get ordinary pages, because mmap(MAP_HUGETLB) failed: %s. "
            "Raise vm.nr_hugepages, or unset GPUFEED_PIN_PAGES",
            bytes >> 20, strerrordesc_np(error));
    return NULL;
}

/*
 * Whether a sample of the pages is on the policy's node. True if the policy does not name one node,
 * or if the library may not query the node of pages.
 */
static bool is_placed(const void *at, size_t bytes, const struct gf_range_policy *policy)
{
    if (gf_set_count(&policy->nodes) != 1 || !gf_permit(gf_permit_move_pages))
        return true;
    return gf_range_node_read(at, bytes) == gf_set_next(&policy->nodes, 0);
}

bool gf_huge_pool_accept(const void *at, size_t bytes, const struct gf_range_policy *policy,
                         int error)
{
    if (!error && is_placed(at, bytes, policy))
        return true;
    if (gf_exchange_relaxed(&stopped, true))
        return false;
    if (error)
        gf_warn("reserved huge pages could not be populated: %s. Pinned memory gets ordinary pages "
                "from now on. Check the cgroup's hugetlb limit",
                strerrordesc_np(error));
    else
        gf_warn("node %d has too few free huge pages. Pinned memory gets ordinary pages from now "
                "on. Raise the node's nr_hugepages",
                gf_set_next(&policy->nodes, 0));
    return false;
}
