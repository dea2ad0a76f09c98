/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advises transparent huge pages for big blocks (callouts/big.h), if the system's setting is madvise
 * and the profile favours throughput. Smaller blocks get no advice: many threads that use a little of
 * each huge page would use more memory. This process stops advising if the kernel takes long to find
 * huge pages, or finds too few.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_HUGE_H
#define GF_PRELOAD_HEAP_PAGES_HUGE_H

#include "abi/heap_api.h"
#include "config/options.h"

#define GF_HUGE_PAGE ((size_t)2 << 20)
/* Smaller blocks get no advice. */
#define GF_HUGE_MIN ((size_t)16 << 20)

/*
 * Called once, after jemalloc has read the system's setting. Mappings made before the call get no
 * advice.
 */
void gf_huge_init(enum gf_profile profile);

/* Called for the mapping of a big block. The caller holds no lock. May change errno. */
void gf_huge_mapped(void *start, size_t size);

/*
 * Called for a mapping that has grown. If it had advice, the new part has it, too. A mapping that
 * reaches GF_HUGE_MIN gets advice as a whole, so that it stays one mapping.
 */
void gf_huge_grown(void *start, size_t before, size_t after);

/*
 * Adds a sample: the first touch of a page in a large block took `ns` nanoseconds of CPU time.
 * huge: whether the kernel provided a huge page. The caller must hold no lock of jemalloc.
 */
void gf_huge_touched(uint64_t ns, bool huge);

/*
 * The samples of the current window: their number, how many were slow, and how many got a small
 * page. gf_huge_judge is a pure function. gf_huge_judge adds a sample, and starts a new window when
 * the current one is complete. It returns true if advising must stop.
 */
struct gf_huge_guard {
    unsigned samples, slow, small;
};
bool gf_huge_judge(struct gf_huge_guard *guard, uint64_t ns, bool huge);

/* gf_heap_ops.huge */
void gf_huge_read(struct gf_heap_huge *ret);

#endif
