/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: contiguous memory of a ring with an event. A slot with a DMA under way becomes free when
 * any call finds that its event has completed. A call waits only for events of slots that it
 * acquired itself, so no stream delays another. Any thread.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_ALLOC_H
#define GF_ENGINE_TRANSFER_STAGING_RING_ALLOC_H

#include "engine/transfer/staging/ring.h"

/*
 * Acquires a slot of `bytes` bytes for the caller; 0 bytes: only an event. NULL: no slot is free
 * now.
 */
struct gf_slot *gf_slot_acquire(struct gf_ring *ring, size_t bytes) __attribute__((nonnull));
/* Frees a slot at once, because no DMA uses it any more. */
void gf_slot_release(struct gf_ring *ring, struct gf_slot *slot);
/* Frees a slot when its event has completed. The event was recorded after the DMA. */
void gf_slot_release_on_event(struct gf_slot *slot);
/* Leaves a slot unused for good, because no event shows when its DMA has ended. */
void gf_slot_abandon(struct gf_slot *slot);

/*
 * Frees all slots whose events have completed, on any stream. Queries the events and never waits.
 */
void gf_slot_reclaim(struct gf_ring *ring);

/* Records the slot's event on a stream, queries the event, or waits for it. */
CUresult gf_slot_record(const struct gf_slot *slot, CUstream stream);
CUresult gf_slot_query(const struct gf_slot *slot);
CUresult gf_slot_wait(const struct gf_slot *slot);

#endif
