/* SPDX-License-Identifier: Apache-2.0 */
/* When to look for segments of rings that were unused for long. Any thread; no lock, no CUDA call. */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_DUE_H
#define GF_ENGINE_TRANSFER_STAGING_RING_DUE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether some ring may have such a segment. One load before the first segment; later also a clock. */
bool gf_ring_trim_is_due(void);

/* Records that segments may be found unused at `ns` or later. */
void gf_ring_look_at(uint64_t ns);
/* Records the same, and that none will be found before `ns`. */
void gf_ring_look_next(uint64_t ns);

/*
 * Called when memory is short. From now on a short time counts as long, until each ring has been
 * looked at.
 */
void gf_ring_trim_soon(void);
/* When gf_ring_trim_soon was last called; 0: never. */
uint64_t gf_ring_memory_was_short_ns(void);

#endif
