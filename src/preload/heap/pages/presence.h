/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out by mincore whether pages are present in memory. glibc and jemalloc never call mincore,
 * so a seccomp filter may kill the process for it. So mincore is called only if the process has a
 * log or uses a GPU, and if os/permit.h permits it. The functions may be called on any thread, and
 * may change errno.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PRESENCE_H
#define GF_PRELOAD_HEAP_PAGES_PRESENCE_H

#include "base/base.h"

/* Called once the process has a log or uses a GPU. */
void gf_presence_allow(void);
bool gf_presence_allowed(void);

/* Whether a page is present; true if unknown. */
bool gf_presence_page(uintptr_t page);
/*
 * Whether at least 7/8 of the pages in the range are present. If mincore must not be called,
 * returns whether at least 7/8 of some sampled pages contain data. The pages must be readable.
 */
bool gf_presence_most(const char *start, size_t size);

#endif
