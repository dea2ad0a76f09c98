/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates the cost of page faults in new large blocks. Four pages of a block are examined by
 * mincore, to estimate how much of the block is missing. Touching one missing page measures the
 * duration of a fault. Pages that are still missing when the block is freed caused no fault, and
 * are subtracted. A block that was not freed yet counts as completely touched.
 */
#ifndef GF_PRELOAD_HEAP_PAGES_FIRST_TOUCH_H
#define GF_PRELOAD_HEAP_PAGES_FIRST_TOUCH_H

#include "abi/heap_api.h"
#include "base/base.h"

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

#endif
