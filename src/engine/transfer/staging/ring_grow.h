/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing a ring. Copies only request memory. The library's own thread maps the memory (prepare.h);
 * if there is no such thread, the copying thread does. Helper threads on the node touch the memory
 * while copies continue, and a later copy registers it. To each ring, at most one segment is added
 * at a time. The functions may be called on any thread.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_GROW_H
#define GF_ENGINE_TRANSFER_STAGING_RING_GROW_H

#include "engine/transfer/staging/ring.h"

/*
 * Called by each copy that may be staged. Returns whether the ring has memory. If a segment has
 * been touched and a copy of `bytes` bytes justifies the cost, registers that segment. If the ring
 * is empty, requests the first segment. This segment is mapped after the driver's call, but for a
 * copy of at least GF_TUNE_PREPARE_NOW bytes at once, and then the function waits for it for a
 * limited time (ring_patience.h).
 */
bool gf_ring_ready(struct gf_ring *ring, size_t bytes);

/*
 * Called if a copy must wait because the ring has no free slot of `bytes` bytes. Requests more
 * memory, up to a limit that depends on the number of calls that are inside the context.
 */
void gf_ring_want_contiguous(struct gf_ring *ring, size_t bytes);

/*
 * Called if a copy got fewer slots than planned, or goes to the host. Requests memory while the
 * ring has less than GF_TUNE_RING_WINDOW bytes, or less than GF_TUNE_SHARE_LEAST bytes for each
 * call that is inside the context.
 */
void gf_ring_want_more(struct gf_ring *ring);

/*
 * Maps the memory that copies have requested for this ring, and lets helper threads touch it. Makes
 * no CUDA call.
 */
void gf_ring_prepare(struct gf_ring *ring);
/* The same for the rings of all contexts. */
void gf_rings_prepare(void);

/*
 * Whether a segment is being added: it is being mapped, touched or registered, or waits for a copy
 * that registers it.
 */
bool gf_ring_growth_is_on(const struct gf_ring *ring);
/* Unmaps a segment that is not registered yet. Waits for pieces that helper threads have begun. */
void gf_ring_growth_cancel(struct gf_ring *ring);

#endif
