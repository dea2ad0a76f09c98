/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/ranges.h"

#include <string.h>

static uintptr_t range_end(const struct gf_range *range)
{
    return range->start + range->size;
}

/* Returns the index of the first range that ends at or after `address`. */
static size_t first_range_reaching(const struct gf_ranges *ranges, uintptr_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (range_end(&ranges->at[middle]) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void replace_entries(struct gf_ranges *ranges, size_t first, size_t last,
                            const struct gf_range *with, size_t count)
{
    for (size_t i = first; i < last; i++)
        ranges->bytes -= ranges->at[i].size;
    memmove(&ranges->at[first + count], &ranges->at[last],
            (ranges->count - last) * sizeof(ranges->at[0]));
    for (size_t i = 0; i < count; i++) {
        ranges->at[first + i] = with[i];
        ranges->bytes += with[i].size;
    }
    ranges->count = ranges->count - (last - first) + count;
}

void gf_ranges_add(struct gf_ranges *ranges, uintptr_t start, size_t size)
{
    uintptr_t end = start + size;
    const size_t first = first_range_reaching(ranges, start);
    size_t last = first;

    for (; last < ranges->count && ranges->at[last].start <= end; last++) {
        start = gf_min(start, ranges->at[last].start);
        end = gf_max(end, range_end(&ranges->at[last]));
    }
    if (last == first && ranges->count == GF_RANGES_MAX) {
        ranges->overflowed = true;
        return;
    }
    replace_entries(ranges, first, last, &(struct gf_range){start, end - start}, 1);
}

void gf_ranges_remove(struct gf_ranges *ranges, uintptr_t start, size_t size)
{
    const uintptr_t end = start + size;
    struct gf_range rest[2] = {0};
    size_t left = 0;
    size_t first = first_range_reaching(ranges, start);

    if (first < ranges->count && range_end(&ranges->at[first]) == start)
        first++; /* this range ends where the removed one starts */
    size_t last = first;
    for (; last < ranges->count && ranges->at[last].start < end; last++) {
        const struct gf_range *range = &ranges->at[last];
        if (range->start < start)
            rest[left++] = (struct gf_range){range->start, start - range->start};
        if (range_end(range) > end)
            rest[left++] = (struct gf_range){end, range_end(range) - end};
    }
    if (last == first)
        return;
    if (ranges->count - (last - first) + left > GF_RANGES_MAX) {
        ranges->overflowed = true;
        left--;
    }
    replace_entries(ranges, first, last, rest, left);
}
