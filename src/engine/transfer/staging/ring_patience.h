/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a copy waits for memory of a ring that other copies hold. Without this wait, the driver
 * would make large copies that began a moment later than others, which is slower. The time is
 * bounded, because the other copies may be on streams that wait for this thread. Any thread.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_PATIENCE_H
#define GF_ENGINE_TRANSFER_STAGING_RING_PATIENCE_H

#include "engine/transfer/staging/ring.h"

/*
 * Whether a copy of `bytes` bytes may wait at all. False for sizes that the driver copies without
 * any wait, and for some copies after one has waited in vain.
 */
bool gf_ring_is_patient(struct gf_ring *ring, size_t bytes);

/*
 * Sleeps for a moment. The caller holds no memory of the ring. Returns false if the copy has waited
 * for its whole time.
 */
bool gf_ring_await_others(size_t bytes, uint64_t since_ns);

/* Records whether a copy that waited got its memory. */
void gf_ring_waited(struct gf_ring *ring, bool found);

#endif
