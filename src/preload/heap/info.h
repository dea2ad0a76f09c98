/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc's functions that report on the heap and tune it, based on jemalloc's statistics. The
 * functions keep errno. The numbers that they report are 0 if jemalloc was built without
 * statistics.
 */
#ifndef GF_PRELOAD_HEAP_INFO_H
#define GF_PRELOAD_HEAP_INFO_H

#include "abi/heap_api.h"
#include "preload/heap/family.h"

/* Purges all free pages. Returns 1 if any page was purged. pad is ignored. */
int gf_info_malloc_trim(size_t pad);

#define GF_FAMILY_INFO(name, type, parameters, arguments) type gf_info_##name parameters;
#include "abi/family.def"

/* gf_heap_ops.stats */
void gf_info_heap(struct gf_heap_stats *ret);

#endif
