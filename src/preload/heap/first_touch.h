/* SPDX-License-Identifier: Apache-2.0 */
/* Page faults of new blocks, huge pages. */
#pragma once

#include "abi/heap_api.h"
#include "base/base.h"
#include "config/options.h"

/*
 * Finds out by mincore whether pages are present in memory. glibc and jemalloc never call mincore,
 * so a seccomp filter may kill the process for it. So mincore is called only if the process has a
 * log or uses a GPU, and if os/permit.h permits it. The functions may be called on any thread, and
 * may change errno.
 */

/* Called once the process has a log or uses a GPU. */
void gf_presence_allow(void);
bool gf_presence_allowed(void);

/*
 * Whether at least 7/8 of the pages in the range are present. If mincore must not be called,
 * returns whether at least 7/8 of some sampled pages contain data. The pages must be readable.
 */
bool gf_presence_most(const char *start, size_t size);

/*
 * Advises transparent huge pages for big blocks (big.h) in a process that uses a GPU or was started by
 * one, if the system's setting is madvise and the profile favours throughput. In other processes, a
 * block of which the program uses a page here and there would use more memory than without the
 * library. Smaller blocks get no advice: many threads that use a little of each huge page would use
 * more memory. This process stops advising if the kernel takes long to find huge pages, or finds too
 * few.
 */

#define GF_HUGE_PAGE ((size_t)2 << 20)
/* Smaller blocks get no advice. */
#define GF_HUGE_MIN ((size_t)16 << 20)

/*
 * Called once, after jemalloc has read the system's setting. engines_child: a process with an engine
 * started this one.
 */
void gf_huge_init(enum gf_profile profile, bool engines_child);

/* Called by a process that uses a GPU. Earlier mappings get no advice. */
void gf_huge_allow(void);

/* Called for the mapping of a big block. The caller holds no lock. May change errno. */
void gf_huge_mapped(void *start, size_t size);

/*
 * Called for a mapping that has grown. If it had advice, the new part has it, too. A mapping that
 * reaches GF_HUGE_MIN gets advice as a whole, so that it stays one mapping.
 */
void gf_huge_grown(void *start, size_t before, size_t after);

/*
 * The samples of the current window: their number, how many were slow, and how many got a small
 * page. gf_huge_judge is a pure function. gf_huge_judge adds a sample, and starts a new window when
 * the current one is complete. It returns true if advising must stop.
 */
struct gf_huge_trial {
    unsigned samples, slow, small;
};
bool gf_huge_judge(struct gf_huge_trial *trial, uint64_t ns, bool huge);

/* gf_heap_ops.huge */
void gf_huge_read(struct gf_heap_huge *ret);

/*
 * Estimates the cost of page faults in new large blocks. Four pages of a block are examined by
 * mincore, to estimate how much of the block is missing. Touching one missing page measures the
 * duration of a fault. Pages that are still missing when the block is freed caused no fault, and
 * are subtracted. A block that was not freed yet counts as completely touched.
 */

#define GF_FIRST_TOUCH_MIN ((size_t)1 << 20)

/*
 * gf_first_touch_allocated is called just before a block, or the part by which a block has grown,
 * is returned to the program. gf_first_touch_freed is called just before a block, or a part of a
 * block, is freed. block: the size of the whole block, at least GF_FIRST_TOUCH_MIN. Both functions
 * keep errno. The caller must hold no lock of jemalloc.
 */
GF_COLD void gf_first_touch_allocated(void *start, size_t size, size_t block);
GF_COLD void gf_first_touch_freed(void *start, size_t size, size_t block);

/* gf_heap_ops.first_touch */
void gf_first_touch_read(struct gf_heap_first_touch *ret);
