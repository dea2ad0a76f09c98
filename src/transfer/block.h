/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a ring that a copy holds, and the event that stands behind what was done with it. A
 * block behind which a DMA was issued comes free when its event has come, whoever looks; a call
 * waits for events of blocks that it took itself only, so no stream ever holds up another.
 */
#ifndef GF_TRANSFER_BLOCK_H
#define GF_TRANSFER_BLOCK_H

#include "transfer/ring.h"

struct gf_segment;

struct gf_block {
    unsigned state; /* atomic; block.c's */
    unsigned first, units;
    struct gf_segment *segment; /* NULL: an event without memory */
    char *at;
    size_t bytes;
    CUevent event;
};

/* Contiguous memory (0 bytes: only an event), held by the caller; NULL: there is none just now. */
struct gf_block *gf_block_take(struct gf_ring *ring, size_t bytes);
/* Nothing is under way in it, or was and is known to have ended. */
void gf_block_give(struct gf_ring *ring, struct gf_block *block);
/* A DMA may be under way, behind which its event was recorded: it comes free by itself. */
void gf_block_let_go(struct gf_block *block);
/* Nobody can tell when it would be free: it is never used again. */
void gf_block_lose(struct gf_block *block);

/* Its event behind what the stream has to do; whether that has ended; and waiting for it. */
CUresult gf_block_mark(const struct gf_block *block, CUstream stream);
CUresult gf_block_query(const struct gf_block *block);
CUresult gf_block_wait(const struct gf_block *block);

#endif
