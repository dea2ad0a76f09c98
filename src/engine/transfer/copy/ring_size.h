/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/transfer/copy/ring.h"

/*
 * How long a copy waits for memory of a ring that other copies hold, or that is being prepared.
 * Without this wait, a large copy that begins a moment later than other copies, or before the ring
 * has memory, would be left to the driver, which is slower. The wait has a limit, because the other
 * copies may be on streams that wait for this thread. The functions may be called on any thread.
 */

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

/* Called after a copy has waited. `found`: the copy got its memory. */
void gf_ring_waited(struct gf_ring *ring, bool found);

/*
 * Growing a ring. Copies only request memory. The library's own thread maps the memory (prepare.h);
 * if there is no such thread, the copying thread does. Helper threads on the node touch the memory
 * while copies continue, and a later copy registers it. To each ring, at most one segment is added
 * at a time. The functions may be called on any thread.
 */

/*
 * Called by each copy that may be staged. Returns whether the ring has memory. If a segment has
 * been touched and a copy of `bytes` bytes justifies the cost, registers that segment. If the ring
 * is empty, requests the first segment. This segment is mapped after the driver's call, but for a
 * copy of at least GF_TUNE_PREPARE_NOW bytes at once, and then the function waits for it for a
 * limited time (ring_size.h).
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

/*
 * Removes segments of a ring: segments that were unused for a minute, and all segments after the
 * context has ended.
 */

/*
 * Whether the rings should be searched for unused segments now. Costs one load before the first
 * segment exists, and later also a reading of the clock.
 */
bool gf_ring_trim_is_due(void);

/*
 * Called when memory is short. The next search of each ring removes segments that were unused for
 * GF_TUNE_RING_SHORT_NS, instead of GF_TUNE_RING_IDLE_NS. Takes no lock, and makes no CUDA call.
 */
void gf_ring_trim_soon(void);

/*
 * Removes segments that were unused for GF_TUNE_RING_IDLE_NS, or less if memory is short.
 * Unregistering waits for all work of the context, so this function is called only after the driver
 * itself has waited for that work. The context is current.
 */
void gf_ring_trim(struct gf_context *context);

/* Frees the ring. The context has ended, and no call is inside it. Makes no CUDA call. */
void gf_ring_end(struct gf_context *context);
