/* SPDX-License-Identifier: Apache-2.0 */
/* What a ring is made of: for ring.c, which makes and ends it, and block.c, which gives it out. */
#ifndef GF_TRANSFER_RING_PARTS_H
#define GF_TRANSFER_RING_PARTS_H

#include "transfer/block.h"
#include "transfer/growth.h"
#include "transfer/segment.h"

#include <pthread.h>

#define GF_RING_SEGMENTS 16
#define GF_RING_BLOCKS 512

struct gf_ring {
    struct gf_context *context;
    void *memory; /* that it lies in */
    pthread_mutex_t lock; /* of segments and their maps */
    struct gf_segment *segments[GF_RING_SEGMENTS];
    unsigned turn, turn_unit; /* the segment, and the unit in it, that the next block is looked for from */
    uint64_t wish; /* atomic: a growth that was asked for, 0 none: the least units << 32 | units */
    struct gf_growth growth;
    unsigned event_flags;
    uint64_t limit;      /* atomic */
    uint64_t bytes;      /* atomic, registered */
    uint64_t refused_ns; /* atomic: when it was last told to stay as it is; 0 never */
    unsigned off;        /* atomic */
    struct gf_block blocks[GF_RING_BLOCKS]; /* the last: before there is a segment nobody touches them */
};

/* Frees the blocks whose DMAs have ended meanwhile, of all streams; asks, and never waits. */
void gf_block_collect(struct gf_ring *ring);

#endif
