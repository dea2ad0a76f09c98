/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted table of address ranges of fixed size. The kernel places mappings side by side, so
 * adjacent ranges become one and a heap of many GiB needs a few entries. No lock of its own.
 */
#ifndef GF_HEAP_RANGES_H
#define GF_HEAP_RANGES_H

#include "heap/heap.h"

#define GF_RANGES_MAX 2048

struct gf_ranges {
    struct gf_range at[GF_RANGES_MAX];
    size_t count;
    size_t bytes; /* in all of them together */
    bool overflowed; /* at some time a range did not fit: the table is not complete */
};

void gf_ranges_add(struct gf_ranges *ranges, uintptr_t start, size_t size);
/* Any part of what was added, or of nothing that was. */
void gf_ranges_remove(struct gf_ranges *ranges, uintptr_t start, size_t size);

#endif
