/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing segments of a ring: those unused for long, and all segments once the context has ended.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_TRIM_H
#define GF_ENGINE_TRANSFER_STAGING_RING_TRIM_H

struct gf_context;

/*
 * Removes segments that were unused for long. Unregistering waits for all work of the context, so
 * this is called only after the driver itself has waited for that work. The context is current.
 */
void gf_ring_trim(struct gf_context *context);

/* Frees the ring. The context has ended, and no call is inside it. Makes no CUDA call. */
void gf_ring_end(struct gf_context *context);

#endif
