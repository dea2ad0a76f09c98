/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when the rings are searched for unused segments. The functions may be called on any
 * thread. They take no lock and make no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_DUE_H
#define GF_ENGINE_TRANSFER_STAGING_RING_DUE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the rings should be searched now. Costs one load before the first segment exists, and
 * later also a reading of the clock.
 */
bool gf_ring_trim_is_due(void);

/*
 * Lets gf_ring_trim_is_due return true from the time `ns` on, or from an earlier time that was
 * already set.
 */
void gf_ring_look_at(uint64_t ns);
/* The same, but replaces the time that was set before. */
void gf_ring_look_next(uint64_t ns);

/*
 * Called when memory is short. The next search of each ring removes segments that were unused for
 * GF_TUNE_RING_SHORT_NS, instead of GF_TUNE_RING_IDLE_NS.
 */
void gf_ring_trim_soon(void);
/* The time when gf_ring_trim_soon was last called; 0: never. */
uint64_t gf_ring_memory_was_short_ns(void);

#endif
