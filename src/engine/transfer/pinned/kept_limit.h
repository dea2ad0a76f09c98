/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of freed pinned memory that is kept for reuse: mappings that keepalives of small blocks
 * hold (pinned_cache.h), and mappings of larger buffers (kept_mapping.h). Small blocks come first.
 * The limit depends on the headroom, which is read once a second. Any thread; no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_KEPT_LIMIT_H
#define GF_ENGINE_TRANSFER_PINNED_KEPT_LIMIT_H

#include "base/base.h"

/*
 * Returns how many mappings of 2 MiB all contexts may keep. If the headroom is due, reads it, and
 * unmaps kept mappings of buffers that are above the limit or were not reused for a minute. node:
 * the device's; -1 if it is unknown.
 */
unsigned gf_kept_limit_read(int node);

/* The bytes that mappings of buffers may have, besides those that are kept for small blocks. */
uint64_t gf_kept_limit_room(void);

/* Unmaps the mappings of buffers that do not fit into gf_kept_limit_room, the oldest first. */
void gf_kept_limit_apply(void);

/* Unmaps all kept mappings of buffers. */
void gf_kept_limit_trim(void);

/*
 * Called when memory is short. For the next second nothing is kept, and no keepalive is allocated.
 */
void gf_kept_limit_short(void);
bool gf_kept_limit_is_short(void);

#endif
