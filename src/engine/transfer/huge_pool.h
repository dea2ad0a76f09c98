/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved huge pages (hugetlb) for pinned memory, with GPUFEED_PIN_PAGES=huge. The mappings are
 * shared, because a child process that writes to a private one may receive SIGBUS. An access to an
 * absent page may raise SIGBUS too, but populating the page returns an error instead. So the caller
 * populates a mapping before use. All functions may be called on any thread.
 */
#pragma once

#include "engine/transfer/range_policy.h"

/* Whether the user requests reserved huge pages, and gf_huge_pool_accept has not failed. */
bool gf_huge_pool_is_on(void);

/*
 * Maps `bytes` bytes, a multiple of GF_HUGE_PAGE, and sets the memory policy. The kernel reserves
 * the pages from its pool of huge pages. NULL: gf_huge_pool_is_on is false, or the pool has too few
 * free pages. The first failure in the process prints one line.
 */
void *gf_huge_pool_map(size_t bytes, const struct gf_range_policy *policy);

/*
 * Called after a mapping was populated. `error`: the errno of populating, or 0. True: all pages are
 * present and, if the policy names one node, on that node. False: the caller must unmap the memory,
 * and no reserved huge page is used from now on. Another attempt would zero as many pages in vain.
 */
bool gf_huge_pool_accept(const void *at, size_t bytes, const struct gf_range_policy *policy,
                         int error);
