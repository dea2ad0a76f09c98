/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes segments of a ring: segments that were unused for a minute, and all segments after the
 * context has ended.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_TRIM_H
#define GF_ENGINE_TRANSFER_STAGING_RING_TRIM_H

struct gf_context;

/*
 * Removes segments that were unused for GF_TUNE_RING_IDLE_NS, or less if memory is short.
 * Unregistering waits for all work of the context, so this function is called only after the driver
 * itself has waited for that work. The context is current.
 */
void gf_ring_trim(struct gf_context *context);

/* Frees the ring. The context has ended, and no call is inside it. Makes no CUDA call. */
void gf_ring_end(struct gf_context *context);

#endif
