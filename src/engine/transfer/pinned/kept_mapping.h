/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "engine/transfer/pinned/pinned_mapping.h"

/*
 * Zeroes memory that another block used before. A program seldom fills a whole pinned buffer,
 * because frameworks round sizes up. So many pages of such memory are still zero. With wide vector
 * registers, checking whether a page is zero takes a third of the time of writing the page.
 * Measurements: bench/NOTES.md.
 */

#define GF_ZERO_PAGE ((size_t)4096) /* the unit that is checked, and zeroed if needed */

/* Zeroes a range that no other thread writes. May be called on any thread. */
void gf_zero(char *at, size_t bytes);

/* One way to check a page that is aligned to GF_ZERO_PAGE. Tests use each way. */
struct gf_zero_way {
    /* the processor has the vector registers for it, and the kernel saves them */
    bool (*can_run)(void);
    bool (*is_zero_page)(const char *page);
};
/*
 * Returns the ways; those with the widest registers come first. If the processor supports none of
 * them, gf_zero only calls memset.
 */
const struct gf_zero_way *gf_zero_ways(size_t *ret_count);

/* Reverts what a program may have set for a range of pinned memory that it has freed. */

/*
 * Makes the pages of the range readable and writable with the default protection key, unlocks them,
 * and removes guard pages. A new mapping would have these properties. The range begins and ends with a page. False:
 * the kernel or a filter (os/permit.h) refuses; some properties may have changed. Changes errno.
 * Any thread.
 */
bool gf_range_reset(void *at, size_t bytes);

/*
 * Sets whether children that are forked later inherit the range. The kernel's lock of the address
 * space orders the call with forks. False: the kernel refuses. Changes errno. Any thread.
 */
bool gf_range_inherit(void *at, size_t bytes, bool on);

/*
 * Mappings of freed pinned buffers, which later buffers of the same size reuse. They are not
 * registered, so the device has finished with them, and the driver knows them no longer. A child
 * that is forked while a mapping is kept does not inherit it. A mapping is not kept if a child was
 * forked while the program had the buffer, because the child may still use it, or if its pages are
 * on another node than the policy names. Any thread; no CUDA call.
 */

/*
 * A value that each fork by libc changes, and that is no multiple of 2^32 while a fork is under way;
 * 0 if forks are not noticed. Called before the program gets a buffer.
 */
uint64_t gf_kept_mapping_forks(void);

/*
 * Whether a fork began after gf_kept_mapping_forks returned this value, or was under way then. True
 * also if forks are not noticed.
 */
bool gf_kept_mapping_forked(uint64_t since);

/*
 * Takes a kept mapping for a buffer of `bytes` bytes, zeroed by the caller and helpers. False: none
 * of this size has the same helpers and policy.
 */
bool gf_kept_mapping_take(struct gf_pool *pool, size_t bytes, const struct gf_range_policy *policy,
                          struct gf_pinned_mapping *ret);

/*
 * Keeps a mapping, at another address, and unmaps the oldest ones, so that at most `most` bytes are
 * kept. False: the caller unmaps the mapping.
 */
bool gf_kept_mapping_put(struct gf_pinned_mapping *mapping, uint64_t most);

/*
 * Unmaps the mappings that were kept before this time (gf_now_ns), and then the oldest ones until at
 * most `most` bytes are kept. Returns their number.
 */
unsigned gf_kept_mapping_trim(uint64_t before_ns, uint64_t most);

/* The bytes that are kept now. */
uint64_t gf_kept_mapping_bytes(void);
