/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment of a ring: registered memory that is allocated in units. The caller holds the ring's
 * lock.
 */
#ifndef GF_ENGINE_TRANSFER_STAGING_RING_SEGMENT_H
#define GF_ENGINE_TRANSFER_STAGING_RING_SEGMENT_H

#include "base/base.h"

#define GF_RING_SEGMENT_UNIT ((size_t)256 << 10)

struct gf_ring_segment {
    char *at;
    size_t bytes;
    unsigned units, used;
    unsigned abandoned; /* used units that become free only when the segment is removed */
    bool claimed;       /* by a trim, which unmaps it */
    int node;           /* the node of the pages, read when the segment was added; -1 if unknown */
    uint64_t used_ns;   /* the time when units were last freed */
    uint64_t map[];     /* a bit for each unit in use */
};

/*
 * Creates the descriptor of a segment. The caller frees it with free(), which does not unmap the
 * memory. NULL: out of memory.
 */
struct gf_ring_segment *gf_ring_segment_new(char *at, size_t bytes);

/*
 * Allocates the first `units` contiguous free units at or after unit `from`. False: there are no
 * such units.
 */
bool gf_ring_segment_alloc(struct gf_ring_segment *segment, unsigned units, unsigned from,
                           unsigned *ret_first);
void gf_ring_segment_free(struct gf_ring_segment *segment, unsigned first, unsigned units);

/* Keeps allocated units out of use, because a DMA may still use them. */
void gf_ring_segment_abandon(struct gf_ring_segment *segment, unsigned units);
/* Whether no unit is used, or only abandoned ones are. */
bool gf_ring_segment_is_unused(const struct gf_ring_segment *segment);
/*
 * Allocates all free units of an unused segment. After gf_ring_segment_unclaim they are free again.
 */
void gf_ring_segment_claim(struct gf_ring_segment *segment);
void gf_ring_segment_unclaim(struct gf_ring_segment *segment);

#endif
