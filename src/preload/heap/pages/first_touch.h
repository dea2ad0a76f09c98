/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates the cost of page faults in new large blocks. mincore on four pages of a block shows how
 * much of it is missing. Touching one missing page measures the duration of a fault. Pages that are
 * still missing when the block is freed caused no fault, and are subtracted. A live block counts as
 * completely touched.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_FIRST_TOUCH_H
#define GF_PRELOAD_HEAP_PAGES_FIRST_TOUCH_H

#include "abi/heap_api.h"
#include "base/base.h"

#define GF_FIRST_TOUCH_MIN ((size_t)1 << 20)

/*
 * Called just before a block or an added part is returned to the caller, and just before it is
 * freed. block: the size of the whole block, at least GF_FIRST_TOUCH_MIN. Both keep errno. The
 * caller holds no lock of jemalloc.
 */
GF_COLD void gf_first_touch_allocated(void *start, size_t size, size_t block);
GF_COLD void gf_first_touch_freed(void *start, size_t size, size_t block);

/* gf_heap_ops.first_touch */
void gf_first_touch_read(struct gf_heap_first_touch *ret);

#endif
