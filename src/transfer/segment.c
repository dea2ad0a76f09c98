/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/segment.h"

#include "base/clock.h"

#include <stdlib.h>

struct gf_segment *gf_segment_new(char *at, size_t bytes)
{
    const unsigned units = (unsigned)(bytes / GF_SEGMENT_UNIT);
    struct gf_segment *segment =
        calloc(1, sizeof(*segment) + (units + 63) / 64 * sizeof(segment->map[0]));

    if (segment)
        *segment = (struct gf_segment){
            .at = at, .bytes = bytes, .units = units, .used_ns = gf_now_ns()};
    return segment;
}

static bool is_free(const struct gf_segment *segment, unsigned unit)
{
    return !(segment->map[unit / 64] >> unit % 64 & 1);
}

static void mark(struct gf_segment *segment, unsigned first, unsigned units, bool taken)
{
    for (unsigned i = first; i < first + units; i++)
        if (taken)
            segment->map[i / 64] |= UINT64_C(1) << i % 64;
        else
            segment->map[i / 64] &= ~(UINT64_C(1) << i % 64);
}

bool gf_segment_take(struct gf_segment *segment, unsigned units, unsigned from, unsigned *ret_first)
{
    unsigned run = 0;

    if (units > segment->units - segment->taken)
        return false;
    for (unsigned i = from; i < segment->units; i++) {
        run = is_free(segment, i) ? run + 1 : 0;
        if (run < units)
            continue;
        *ret_first = i + 1 - units;
        mark(segment, *ret_first, units, true);
        segment->taken += units;
        return true;
    }
    return false;
}

void gf_segment_give(struct gf_segment *segment, unsigned first, unsigned units)
{
    mark(segment, first, units, false);
    segment->taken -= units;
    segment->used_ns = gf_now_ns();
}
