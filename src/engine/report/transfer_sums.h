/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counts of copies and pinned memory that engine/transfer and the hooks have made, and
 * functions that add them up. The functions have no side effects, and may be called on any thread.
 */
#pragma once

#include "abi/engine_api.h"
#include "engine/transfer/stats.h"

struct gf_report_transfers {
    bool known;         /* true if copies are examined or pinned memory is served */
    uint64_t min_bytes; /* copies of this size or larger are examined; SIZE_MAX: none */
    struct gf_copy_stats copies;
    struct gf_transfer_state state;
};

/*
 * These two functions add up synchronous and asynchronous calls: the first for all copies of a group,
 * the second for all copies that were not staged for one reason.
 */
struct gf_copy_counts gf_transfer_sums_group(const struct gf_copy_stats *copies,
                                             enum gf_direction direction, enum gf_copy_group group);
struct gf_copy_counts gf_transfer_sums_bypassed(const struct gf_copy_stats *copies,
                                                enum gf_direction direction, enum gf_bypass why);

/* Returns the rate in thousandths of 10^9 bytes per second. timed_ns must not be 0. */
uint64_t gf_transfer_sums_rate(const struct gf_copy_counts *counts);

/*
 * Returns an upper bound, in ns, of the time that the program would save by pinning the sources of
 * its copies to the GPU. It is the whole duration of asynchronous calls, plus the time by which
 * synchronous calls took longer than pinned copies of as many bytes. Copies from the GPU do not
 * count: most of their time is a wait for the GPU's work. Sets *ret_rate to the rate of pinned copies in
 * bytes per second. If this rate is unknown (0), synchronous calls do not count.
 */
uint64_t gf_transfer_sums_saving_ns(const struct gf_copy_stats *copies, uint64_t *ret_rate);

/* Returns the time of which waits are a share: of all steps, or ran_ms if no steps are known. */
uint64_t gf_transfer_sums_whole_ns(const struct gf_preload *preload, uint64_t ran_ms);
/* Returns how many of `parts` equal parts of the whole a duration takes. */
uint64_t gf_transfer_sums_share(uint64_t ns, uint64_t whole_ns, unsigned parts);

/*
 * Counts of copies that are not examined. small: copies below min_bytes. unsupported: copies of a
 * shape that is never staged.
 */
struct gf_small_copies {
    uint64_t small, small_bytes, unsupported, unsupported_bytes;
};

/* Adds the counts of a hook. Returns false if no copy was made through the hook. */
bool gf_transfer_sums_add_hook(struct gf_small_copies *sums, const struct gf_hook_counts *counts);
