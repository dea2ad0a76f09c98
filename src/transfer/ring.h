/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pinned memory of one context that copies pass through. It consists of segments, each a
 * private mapping of ours and one registration (a DMA across two would fail); a copy takes
 * contiguous blocks of it (block.h).
 *
 * Segments come and go only inside calls of the program: a copy asks for one, helpers touch its
 * pages while copies go on without it, and a later copy registers it. None is unmapped at exit.
 *
 * No CUDA call is made with the lock held. All CUDA calls here need a thread whose capture mode is
 * relaxed.
 */
#ifndef GF_TRANSFER_RING_H
#define GF_TRANSFER_RING_H

#include "transfer/context.h"
#include "transfer/large.h"

/* The context's ring, made when there is none; NULL: no memory. */
struct gf_ring *gf_ring_of(struct gf_context *context);

/* Whether it works: no call of its own has failed. */
bool gf_ring_is_on(const struct gf_ring *ring);
/* Turns it off for good and says why, once; error may be what the program itself has caused. Not for a capture's. */
void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error);

/*
 * To be called by each copy that wants to be staged: takes in what was touched meanwhile if a copy
 * of these bytes can carry the cost; asks for a first segment, to be made behind a copy that is not very large (prepare.h).
 * Whether there is any memory.
 */
bool gf_ring_ready(struct gf_ring *ring, size_t bytes);

/* Maps what was asked for by these two, and calls the helpers to touch it. Makes no CUDA call. */
void gf_ring_prepare(struct gf_ring *ring);

/* A call had to wait: one contiguous block of these bytes would have been better, up to some for each call. */
void gf_ring_want(struct gf_ring *ring, size_t bytes);

/* A call had to do with less than it wished, or reads: up to what the calls at this moment share. */
void gf_ring_want_more(struct gf_ring *ring);

/* Whether it is time to look for what was long unused: when gf_ring_trim did not for that long. */
bool gf_ring_is_due(void);

/*
 * Gives up what was long unused. Unregistering waits for all work of the context: only from calls
 * in which the driver itself would wait for that. With the context current.
 */
void gf_ring_trim(struct gf_context *context);

/* The context is gone, and nobody is inside. Makes no CUDA call. */
void gf_ring_drop(struct gf_context *context);

uint64_t gf_ring_bytes(const struct gf_ring *ring);
uint64_t gf_ring_limit(const struct gf_ring *ring);
/* Adds its bytes to those of the nodes that they are on; the last: not known. For reports: none if it is in use. */
void gf_ring_held(struct gf_ring *ring, uint64_t held[GF_LARGE_NODES + 1]);

#endif
