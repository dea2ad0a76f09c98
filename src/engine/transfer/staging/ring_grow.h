/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing a ring. Copies only request memory. The library's own thread (prepare.h) maps it, or the
 * copying thread if there is no such thread. Helper threads on the node touch the memory while
 * copies continue, and a later copy registers it. In each ring, at most one segment at a time is
 * being added. Any thread.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_GROW_H
#define GF_ENGINE_TRANSFER_STAGING_RING_GROW_H

#include "engine/transfer/staging/ring.h"

/*
 * Whether the ring has memory. Called by each copy that may be staged. Registers a segment that is
 * ready if a copy of `bytes` bytes justifies the cost. For an empty ring, requests the first
 * segment. Unless the copy is very large, that segment is mapped after the driver's call.
 */
bool gf_ring_ready(struct gf_ring *ring, size_t bytes);

/*
 * Called if a copy must wait because the ring has no free slot of `bytes` bytes. Requests more
 * memory, up to a bound that depends on the number of current calls.
 */
void gf_ring_want_contiguous(struct gf_ring *ring, size_t bytes);

/*
 * Called if a copy got fewer slots than planned, or goes to the host. Requests memory up to the sum
 * of the shares of all current calls.
 */
void gf_ring_want_more(struct gf_ring *ring);

/*
 * Maps the memory that copies have requested, and lets helper threads touch it. Makes no CUDA call.
 */
void gf_ring_prepare(struct gf_ring *ring);
/* The same for the rings of all contexts. */
void gf_rings_prepare(void);

/* Whether a segment is being touched, or waits to be registered. */
bool gf_ring_growth_is_on(const struct gf_ring *ring);
/* Unmaps that segment. Waits for pieces that helper threads have begun. */
void gf_ring_growth_cancel(struct gf_ring *ring);

#endif
