/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/units.h"

static size_t divide_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit;
}

static size_t count_mappings(const struct gf_units *units)
{
    return divide_up(units->bytes, units->mapping);
}

uint64_t gf_units_count(const struct gf_units *units)
{
    return (uint64_t)count_mappings(units) *
           divide_up(gf_min(units->mapping, units->bytes), units->unit);
}

size_t gf_units_get(const struct gf_units *units, uint64_t i, size_t *ret_start)
{
    const size_t mappings = count_mappings(units);
    const size_t within = (size_t)i / mappings * units->unit;

    *ret_start = (size_t)i % mappings * units->mapping + within;
    return *ret_start >= units->bytes
               ? 0
               : gf_min(units->unit, gf_min(units->mapping - within, units->bytes - *ret_start));
}
