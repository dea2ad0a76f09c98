/* SPDX-License-Identifier: Apache-2.0 */
/* One piece of a ring's memory, given out in units. Its owner locks. */
#ifndef GF_TRANSFER_SEGMENT_H
#define GF_TRANSFER_SEGMENT_H

#include "base/base.h"

#define GF_SEGMENT_UNIT ((size_t)256 << 10)

struct gf_segment {
    char *at;
    size_t bytes;
    unsigned units, taken;
    int node;         /* where its pages were seen when it became a part of the ring; -1 */
    uint64_t used_ns; /* when some of it was last given back */
    uint64_t map[];   /* a bit for each unit that is taken */
};

/* NULL: no memory. Freed by free(), which leaves the mapping alone. */
struct gf_segment *gf_segment_new(char *at, size_t bytes);

/* So many units side by side, the first such from a unit on; false: there are none. */
bool gf_segment_take(struct gf_segment *segment, unsigned units, unsigned from, unsigned *ret_first);
void gf_segment_give(struct gf_segment *segment, unsigned first, unsigned units);

#endif
