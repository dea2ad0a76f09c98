/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pinned memory of one context that copies pass through. It consists of segments, each a
 * private mapping of ours and one registration (a DMA across two would fail); a copy takes
 * contiguous blocks of it. A block behind which a DMA was issued comes free when its event has
 * come, whoever looks; a call waits for events of blocks that it took itself only, so no stream
 * ever holds up another.
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

#define GF_RING_UNIT ((size_t)256 << 10)

struct gf_segment;

struct gf_block {
    unsigned state; /* atomic; ring.c's */
    unsigned first, units;
    struct gf_segment *segment; /* NULL: an event without memory */
    char *at;
    size_t bytes;
    CUevent event;
};

/* The context's ring, made when there is none; NULL: no memory. */
struct gf_ring *gf_ring_of(struct gf_context *context);

/* Whether it works: no call of its own has failed. */
bool gf_ring_is_on(const struct gf_ring *ring);
/* Turns it off for good and says why, once; error may be what the program itself has caused. */
void gf_ring_turn_off(struct gf_ring *ring, const char *call, CUresult error);

/*
 * To be called by each copy that wants to be staged: takes in what was touched meanwhile if a copy
 * of these bytes can carry the cost; asks for a first segment. Whether there is any memory.
 */
bool gf_ring_ready(struct gf_ring *ring, size_t bytes);

/* Maps what was asked for by these two, and calls the helpers to touch it. Makes no CUDA call. */
void gf_ring_prepare(struct gf_ring *ring);

/* A call had to wait, or to do with less: one contiguous block of these bytes would have been better. */
void gf_ring_want(struct gf_ring *ring, size_t bytes);

/* Contiguous memory (0 bytes: only an event), held by the caller; NULL: there is none just now. */
struct gf_block *gf_ring_take(struct gf_ring *ring, size_t bytes);
/* Nothing is under way in it, or was and is known to have ended. */
void gf_ring_give(struct gf_ring *ring, struct gf_block *block);
/* A DMA may be under way, behind which its event was recorded: it comes free by itself. */
void gf_ring_let_go(struct gf_block *block);
/* Nobody can tell when it would be free: it is never used again. */
void gf_ring_lose(struct gf_block *block);

/* Its event behind what the stream has to do; whether that has ended; and waiting for it. */
CUresult gf_ring_mark(const struct gf_block *block, CUstream stream);
CUresult gf_ring_query(const struct gf_block *block);
CUresult gf_ring_wait(const struct gf_block *block);

/* Whether it is time to look for what was long unused: at most once in that time. */
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

#endif
