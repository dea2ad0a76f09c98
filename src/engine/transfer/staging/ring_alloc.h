/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots. A slot is contiguous memory of a ring, and an event. A slot whose DMA is under way becomes
 * free when any copy finds that the slot's event has completed. A copy waits only for events of
 * slots that it acquired itself, so work on one stream never delays copies on another. The
 * functions may be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_ALLOC_H
#define GF_ENGINE_TRANSFER_STAGING_RING_ALLOC_H

#include "engine/transfer/staging/ring.h"

/*
 * Acquires a slot of `bytes` bytes for the caller. If `bytes` is 0, the slot is only an event.
 * NULL: no such slot is free now.
 */
struct gf_slot *gf_slot_acquire(struct gf_ring *ring, size_t bytes) __attribute__((nonnull));
/* Frees a slot at once. The caller knows that no DMA uses the slot any more. */
void gf_slot_release(struct gf_ring *ring, struct gf_slot *slot);
/*
 * Lets a slot become free when its event has completed. The caller has recorded the event after the
 * slot's DMA.
 */
void gf_slot_release_on_event(struct gf_slot *slot);
/*
 * Frees a slot, but not its memory, because no event shows when its DMA has ended. The memory
 * becomes free when its segment is removed, because the driver then waits for the DMA.
 */
void gf_slot_abandon(struct gf_ring *ring, struct gf_slot *slot);

/*
 * Frees all slots whose events have completed, on any stream, also if the ring is off. Queries the
 * events and never waits.
 */
void gf_slot_reclaim_all(struct gf_ring *ring);

/* Record the slot's event on a stream, query the event, or wait for it. */
CUresult gf_slot_record(const struct gf_slot *slot, CUstream stream);
CUresult gf_slot_query(const struct gf_slot *slot);
CUresult gf_slot_wait(const struct gf_slot *slot);

#endif
