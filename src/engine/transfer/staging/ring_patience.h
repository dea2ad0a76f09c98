/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a copy waits for memory of a ring that other copies hold, or that is being prepared.
 * Without this wait, a large copy that begins a moment later than other copies, or before the ring
 * has memory, would be left to the driver, which is slower. The wait has a limit, because the other
 * copies may be on streams that wait for this thread. The functions may be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_PATIENCE_H
#define GF_ENGINE_TRANSFER_STAGING_RING_PATIENCE_H

#include "engine/transfer/staging/ring.h"

/*
 * Whether a copy of `bytes` bytes may wait at all. False for sizes that the driver copies without
 * any wait. Also false for the next GF_TUNE_RING_IMPATIENT copies after a copy has waited in vain.
 */
bool gf_ring_is_patient(struct gf_ring *ring, size_t bytes);

/*
 * Sleeps for GF_TUNE_RING_MOMENT_NS. The caller must hold no memory of the ring. Returns false
 * without sleeping if a copy of this size, which has waited since `since_ns`, must not wait longer.
 */
bool gf_ring_await_others(size_t bytes, uint64_t since_ns);

/*
 * The same for a copy that waits for the first segment of its ring, which takes a few milliseconds
 * to prepare. `has_begun`: the segment is being prepared.
 */
bool gf_ring_await_first(size_t bytes, uint64_t since_ns, bool has_begun);

/* Called after a copy has waited. `found`: the copy got its memory. */
void gf_ring_waited(struct gf_ring *ring, bool found);

#endif
