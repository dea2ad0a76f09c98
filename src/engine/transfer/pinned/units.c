/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/units.h"

#define LEAD 8 /* a mapping is ahead of the next one by its size divided by this */

static size_t divide_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit;
}

static size_t count_mappings(const struct gf_units *units)
{
    return divide_up(units->bytes, units->mapping);
}

/* Units of the first mapping. */
static size_t count_rows(const struct gf_units *units)
{
    return divide_up(gf_min(units->mapping, units->bytes), units->unit);
}

uint64_t gf_units_count(const struct gf_units *units)
{
    const size_t mappings = count_mappings(units), rows = count_rows(units);
    return (uint64_t)mappings * (rows + (mappings - 1) * (rows / LEAD));
}

size_t gf_units_get(const struct gf_units *units, uint64_t i, size_t *ret_start)
{
    const size_t mappings = count_mappings(units);
    const size_t mapping = (size_t)i % mappings, row = (size_t)i / mappings;
    const size_t behind = mapping * (count_rows(units) / LEAD);
    const size_t within = row < behind ? units->mapping : (row - behind) * units->unit;

    *ret_start = mapping * units->mapping + within;
    return within >= units->mapping || *ret_start >= units->bytes
               ? 0
               : gf_min(units->unit, gf_min(units->mapping - within, units->bytes - *ret_start));
}

uint64_t gf_units_first(const struct gf_units *units, size_t bytes)
{
    const uint64_t count = gf_units_count(units);
    uint64_t i = 0;
    size_t start;

    for (size_t sum = 0; i < count && sum < bytes; i++)
        sum += gf_units_get(units, i, &start);
    return i;
}
