/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces functions (jemalloc.syms) of jemalloc 5.3.0 that cost time or memory without a benefit
 * here. Each replacement leaves jemalloc in a state that it can also reach by itself. docs/heap.md
 * lists the changes.
 */
#include "preload/heap/callouts/overrides.h"

#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/pages/presence.h"

#include <errno.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

uint64_t __wrap_je_peak_alloc_new_event_wait(void *tsd);
uint64_t __wrap_je_peak_dalloc_new_event_wait(void *tsd);
void __real_je_ehooks_default_zero_impl(void *start, size_t size);
void __wrap_je_ehooks_default_zero_impl(void *start, size_t size);
void __real_je_cache_bin_info_init(void *info, uint16_t slots);
void __wrap_je_cache_bin_info_init(void *info, uint16_t slots);

/*
 * jemalloc would update each thread's peak usage every 64 KiB. Only mallctl's "thread.peak" reads
 * the peak, and mallctl is not exported.
 */
uint64_t __wrap_je_peak_alloc_new_event_wait(void *tsd)
{
    (void)tsd;
    return UINT64_MAX;
}

uint64_t __wrap_je_peak_dalloc_new_event_wait(void *tsd)
{
    (void)tsd;
    return UINT64_MAX;
}

/*
 * To zero used pages, jemalloc purges them, and they fault in again one by one. If the pages are
 * present, writing zeros takes a fraction of that time. Blocks of up to CLEAR_UNSEEN bytes are
 * always zeroed by writing. Blocks of up to CLEAR_MAX bytes (glibc's largest M_MMAP_THRESHOLD) are
 * zeroed by writing if most of their pages are present. Otherwise writing would populate a whole
 * block, of which the caller may use little. CLEAR_UNSEEN and CLEAR_MAX include the page that
 * jemalloc adds to each block.
 */
#define CLEAR_UNSEEN (1 * MIB + GF_JEMALLOC_PAGE)
#define CLEAR_MAX (32 * MIB + GF_JEMALLOC_PAGE)

static bool mostly_present(const char *start, size_t size)
{
    const int error = errno;
    const bool ret = gf_presence_most(start, size);
    errno = error;
    return ret;
}

void __wrap_je_ehooks_default_zero_impl(void *start, size_t size)
{
    if (size <= CLEAR_UNSEEN || (size <= CLEAR_MAX && mostly_present(start, size)))
        memset(start, 0, size);
    else
        __real_je_ehooks_default_zero_impl(start, size);
}

void gf_overrides_zero(void *start, size_t size)
{
    __wrap_je_ehooks_default_zero_impl(start, size);
}

/*
 * Sets how many blocks of a size class each thread may cache. jemalloc calls this once for each
 * class, in ascending order, and uses one number for all large classes. A sleeping thread keeps its
 * cached blocks. So this function lowers the number for larger sizes: one class may cache
 * CACHED_MAX bytes, or a single block that is larger. A user's number is respected.
 */
#define CACHED_MAX ((size_t)256 << 10)
#define LARGE_MIN ((size_t)4 * GF_JEMALLOC_PAGE)

void __wrap_je_cache_bin_info_init(void *info, uint16_t slots)
{
    static unsigned class;
    const size_t size = je_sz_index2size_tab[class ++];

    if (size >= LARGE_MIN && slots == GF_JEMALLOC_LARGE_SLOTS)
        slots = (uint16_t)gf_min(slots, gf_max(CACHED_MAX / size, 1));
    __real_je_cache_bin_info_init(info, slots);
}
