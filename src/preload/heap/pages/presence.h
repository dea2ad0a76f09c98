/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds with mincore whether pages are present in memory. glibc and jemalloc never call mincore, so
 * a program's seccomp filter may kill the process at that call. Therefore mincore is not called
 * until the process has a log or feeds a GPU, and only while it is permitted (os/permit.h). Any
 * thread. errno may change.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_PRESENCE_H
#define GF_PRELOAD_HEAP_PAGES_PRESENCE_H

#include "base/base.h"

/* The process has a log or feeds a GPU. */
void gf_presence_allow(void);
bool gf_presence_allowed(void);

/* Whether a page is present; true if that is unknown. */
bool gf_presence_page(uintptr_t page);
/*
 * Whether at least seven eighths of the pages are present. Where mincore is not called, whether at
 * least seven eighths of some sampled pages have data. The pages must be readable.
 */
bool gf_presence_most(const char *start, size_t size);

#endif
