/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages for the heap's large mappings, where the system leaves it to madvise and the profile
 * is for throughput; and an end of it once the kernel turns out to look long for them, or in vain.
 */
#ifndef GF_HEAP_HUGE_H
#define GF_HEAP_HUGE_H

#include "config/options.h"
#include "heap/heap.h"

#define GF_HUGE_PAGE ((size_t)2 << 20)
/* A heap grows in mappings as large as this when it is large itself, or for a large block. */
#define GF_HUGE_LEAST ((size_t)16 << 20)

/* Once, after jemalloc has found out how the system is set; mappings until then are left alone. */
void gf_huge_init(const struct gf_options *options);

/* A new mapping. Under jemalloc's locks; keeps no errno. */
void gf_huge_mapped(void *start, size_t size, int protection);

/*
 * The first touch of a page in a large block took so long; huge: it brought a huge page. No lock of
 * jemalloc's is held.
 */
void gf_huge_touched(uint64_t ns, bool huge);

/* Pure, for the above: one sample more; true when enough is enough. */
struct gf_huge_guard {
    unsigned samples, slow, small;
};
bool gf_huge_judge(struct gf_huge_guard *guard, uint64_t ns, bool huge);

/* gf_heap_ops */
void gf_huge_read(struct gf_heap_huge *ret);

#endif
