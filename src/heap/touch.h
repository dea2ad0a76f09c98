/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program pays right behind malloc: pages of a large block that are not there yet. Four
 * pages of a block tell how much of it is missing (mincore), and one of them, touched here, what a
 * fault costs now. What is still missing when it is given back, nobody has paid for. An estimate: of a block
 * that lives all counts.
 */
#ifndef GF_HEAP_TOUCH_H
#define GF_HEAP_TOUCH_H

#include "heap/heap.h"

#define GF_TOUCH_LEAST ((size_t)1 << 20)

/*
 * Part of a block, or all, is about to be handed out; is given back, and still the caller's. block: how large it is
 * with that part, at least GF_TOUCH_LEAST. Keep errno. No locks are held.
 */
GF_COLD void gf_touch_given(void *start, size_t size, size_t block);
GF_COLD void gf_touch_back(void *start, size_t size, size_t block);

/* gf_heap_ops */
void gf_touch_read(struct gf_heap_touch *ret);

#endif
