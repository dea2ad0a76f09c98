/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of freed pinned buffers, which later buffers of the same size reuse. They are not
 * registered, so the device has finished with them, and the driver knows them no longer. A child
 * that is forked while a mapping is kept does not inherit it. A mapping is not kept if a child was
 * forked while the program had the buffer, because the child may still use it, or if its pages are
 * on another node than the policy names. Any thread; no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_KEPT_MAPPING_H
#define GF_ENGINE_TRANSFER_PINNED_KEPT_MAPPING_H

#include "engine/transfer/pinned/pinned_mapping.h"

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
 * Keeps a mapping, and unmaps the oldest ones, so that at most `most` bytes are kept. False: the
 * caller unmaps the mapping.
 */
bool gf_kept_mapping_put(const struct gf_pinned_mapping *mapping, uint64_t most);

/* Unmaps the mappings that were kept before this time (gf_now_ns). Returns their number. */
unsigned gf_kept_mapping_trim(uint64_t before_ns);

/* Unmaps the oldest mappings until at most `most` bytes are kept. Returns their number. */
unsigned gf_kept_mapping_trim_to(uint64_t most);

/* The bytes that are kept now. */
uint64_t gf_kept_mapping_bytes(void);

#endif
