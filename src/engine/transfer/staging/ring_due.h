/* SPDX-License-Identifier: Apache-2.0 */
/* When to search the rings for unused segments. Any thread; no lock, no CUDA call. */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_DUE_H
#define GF_ENGINE_TRANSFER_STAGING_RING_DUE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether some ring may have such a segment. Costs one load before the first segment exists; later
 * also a clock reading.
 */
bool gf_ring_trim_is_due(void);

/* gf_ring_trim_is_due is true after `ns`, or after an earlier time that was already set. */
void gf_ring_look_at(uint64_t ns);
/* The same, but replaces an earlier time. */
void gf_ring_look_next(uint64_t ns);

/*
 * Called when memory is short. The next search of each ring removes segments that were unused for
 * GF_TUNE_RING_SHORT_NS instead of GF_TUNE_RING_IDLE_NS.
 */
void gf_ring_trim_soon(void);
/* When gf_ring_trim_soon was last called; 0: never. */
uint64_t gf_ring_memory_was_short_ns(void);

#endif
