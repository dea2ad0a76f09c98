/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/staging/ring_segment.h"

#include "base/clock.h"

#include <stdlib.h>

struct gf_ring_segment *gf_ring_segment_new(char *at, size_t bytes)
{
    const unsigned units = (unsigned)(bytes / GF_RING_SEGMENT_UNIT);
    struct gf_ring_segment *segment =
        calloc(1, sizeof(*segment) + (units + 63) / 64 * sizeof(segment->map[0]));

    if (segment)
        *segment = (struct gf_ring_segment){
            .at = at, .bytes = bytes, .units = units, .used_ns = gf_now_ns()};
    return segment;
}

static bool is_unit_free(const struct gf_ring_segment *segment, unsigned unit)
{
    return !(segment->map[unit / 64] >> unit % 64 & 1);
}

static void mark_units(struct gf_ring_segment *segment, unsigned first, unsigned units, bool used)
{
    for (unsigned i = first; i < first + units; i++)
        if (used)
            segment->map[i / 64] |= UINT64_C(1) << i % 64;
        else
            segment->map[i / 64] &= ~(UINT64_C(1) << i % 64);
}

bool gf_ring_segment_alloc(struct gf_ring_segment *segment, unsigned units, unsigned from,
                           unsigned *ret_first)
{
    unsigned run = 0;

    if (units > segment->units - segment->used)
        return false;
    for (unsigned i = from; i < segment->units; i++) {
        run = is_unit_free(segment, i) ? run + 1 : 0;
        if (run < units)
            continue;
        *ret_first = i + 1 - units;
        mark_units(segment, *ret_first, units, true);
        segment->used += units;
        return true;
    }
    return false;
}

void gf_ring_segment_free(struct gf_ring_segment *segment, unsigned first, unsigned units)
{
    mark_units(segment, first, units, false);
    segment->used -= units;
    segment->used_ns = gf_now_ns();
}

void gf_ring_segment_abandon(struct gf_ring_segment *segment, unsigned units)
{
    segment->abandoned += units;
    segment->used_ns = gf_now_ns();
}

bool gf_ring_segment_is_unused(const struct gf_ring_segment *segment)
{
    return !segment->claimed && segment->used == segment->abandoned;
}

void gf_ring_segment_claim(struct gf_ring_segment *segment)
{
    segment->claimed = true;
    segment->used = segment->units;
}

void gf_ring_segment_unclaim(struct gf_ring_segment *segment)
{
    segment->claimed = false;
    segment->used = segment->abandoned;
    segment->used_ns = gf_now_ns();
}
