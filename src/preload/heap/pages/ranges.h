/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted table of address ranges, of fixed size. Adjacent ranges are merged. The kernel usually
 * places new mappings next to each other, so a heap of many GiB needs only a few entries. The
 * caller must hold a lock that protects the table.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_RANGES_H
#define GF_PRELOAD_HEAP_PAGES_RANGES_H

#include "abi/heap_api.h"

#define GF_RANGES_MAX 2048

struct gf_ranges {
    struct gf_range at[GF_RANGES_MAX];
    size_t count;
    size_t bytes;    /* the sum of all sizes */
    bool overflowed; /* a range did not fit, so the table is incomplete */
};

void gf_ranges_add(struct gf_ranges *ranges, uintptr_t start, size_t size);
/* Removes a range from the table. Parts of the range that are not in the table are ignored. */
void gf_ranges_remove(struct gf_ranges *ranges, uintptr_t start, size_t size);

#endif
