/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The division of a range, which consists of mappings of equal size, into units of work for several
 * threads. Consecutive units are in different mappings, because threads that fill one inode at the
 * same time wait for each other.
 */
#ifndef GF_ENGINE_TRANSFER_PINNED_UNITS_H
#define GF_ENGINE_TRANSFER_PINNED_UNITS_H

#include "base/base.h"

struct gf_units {
    size_t bytes;   /* of the range */
    size_t mapping; /* bytes of each mapping; the last one may be smaller */
    size_t unit;    /* bytes of a unit; the last one of a mapping may be smaller */
};

/* Number of units. Some of them are empty. */
uint64_t gf_units_count(const struct gf_units *units);

/* The size of unit i, which may be 0. The unit begins at *ret_start. */
size_t gf_units_get(const struct gf_units *units, uint64_t i, size_t *ret_start);

#endif
