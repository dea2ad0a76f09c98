/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One staged copy on its way through ring blocks: cut into chunks (one DMA each), chunks into
 * pieces (one memcpy each, by whoever has time). A chunk uses the slot of its number modulo the
 * slots that the copy has.
 */
#ifndef GF_TRANSFER_FLOW_H
#define GF_TRANSFER_FLOW_H

#include "hook/transfer_api.h"
#include "transfer/block.h"
#include "transfer/reach.h"
#include "transfer/stats.h"
#include "transfer/tuning.h"

struct gf_flow {
    struct gf_job job; /* first */
    struct gf_ring *ring;
    struct gf_pool *pool;
    char *host;
    bool to_host;
    bool demoted; /* what is written into the ring stays in the shared cache */
    size_t bytes, chunk, piece; /* powers of two but for bytes */
    uint64_t chunks;
    unsigned slots;
    struct gf_block *slot[GF_TUNE_SLOTS];
    bool marked[GF_TUNE_SLOTS];   /* an event stands behind a DMA of the slot */
    struct gf_reach reach;
    uint64_t barred; /* the first chunk that the caller found cannot be touched */
    uint32_t left[GF_TUNE_SLOTS]; /* atomic: pieces of the slot's chunk that are not yet copied */
};

/* How a copy ended. */
struct gf_staged {
    bool forward;  /* nothing was issued: the driver shall do all of it... */
    enum gf_forward why;
    CUresult result; /* ...else what the program is told, */
    size_t done;     /* unless this is less than the whole: the driver shall do the rest */
};

/* What both directions are given. The thread's capture mode is relaxed. */
struct gf_staging {
    const struct gf_copy_call *call;
    struct gf_context *context;
    struct gf_ring *ring;
    uint64_t *since_ns; /* gf_flow_await says when it was done with waiting */
};

void gf_stage_h2d(const struct gf_staging *stage, struct gf_staged *ret);
void gf_stage_d2h(const struct gf_staging *stage, struct gf_staged *ret);

/* Chunks through as many slots as can be had now, at most as many as pay; false: too few. */
bool gf_flow_cut(struct gf_flow *ret, const struct gf_staging *stage, bool to_host);
/* One chunk through one block of the whole size; false: there is none. */
bool gf_flow_whole(struct gf_flow *ret, const struct gf_staging *stage);

/* Length of a chunk. */
size_t gf_flow_length(const struct gf_flow *flow, uint64_t chunk);
static inline unsigned gf_flow_slot(const struct gf_flow *flow, uint64_t chunk)
{
    return (unsigned)(chunk % flow->slots);
}
/* Copies the one chunk of gf_flow_whole into the ring; false: some of it cannot be touched. */
bool gf_flow_read_whole(struct gf_flow *flow);
/*
 * Opens the job with that many chunks ready, or as many as can be touched, which it returns; helpers
 * are called for all that there will be.
 */
uint64_t gf_flow_open(struct gf_flow *flow, uint64_t chunks);
/* The pieces of the next chunk, whose slot is free, may be copied; false: it cannot be touched. */
bool gf_flow_allow(struct gf_flow *flow, uint64_t chunk);
/* Whether every piece of the chunk in its slot is copied. */
bool gf_flow_is_copied(const struct gf_flow *flow, uint64_t chunk);
/* The first chunk that cannot be copied, as a piece of it could not be reached; else all. */
uint64_t gf_flow_end(const struct gf_flow *flow);

/* Records the slot's event behind the chunk's DMA; a failure turns the ring off and loses the slot. */
bool gf_flow_mark(struct gf_flow *flow, uint64_t chunk, CUstream stream);
/*
 * Whether the DMA in the chunk's slot has ended, or waits for that. False with *ret_broken set: no
 * event tells any more, and the ring is off.
 */
bool gf_flow_has_ended(const struct gf_flow *flow, uint64_t chunk, bool wait, bool *ret_broken);

/* Gives the slots back. idle: all that was issued is known to have ended. */
void gf_flow_release(struct gf_flow *flow, bool idle);

/*
 * Waits until the stream has done what was issued to it so far, with nothing of the ring held.
 * *ret_idle, if not NULL: only looks, for a moment, whether it has.
 */
CUresult gf_flow_await(const struct gf_staging *stage, bool *ret_idle);

#endif
