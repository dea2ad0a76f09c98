/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program pays right behind malloc: pages of a large block that are not there yet. Four
 * pages of a block tell how much of it is missing (mincore), and one of them, touched here, what a
 * fault costs now. An estimate: a block that is never filled counts as if it were.
 */
#ifndef GF_HEAP_TOUCH_H
#define GF_HEAP_TOUCH_H

#include "heap/heap.h"

#define GF_TOUCH_LEAST ((size_t)1 << 20)

/* A block of at least GF_TOUCH_LEAST is about to be handed out. Keeps errno. No locks are held. */
GF_COLD void gf_touch_block(void *start, size_t size);

/* gf_heap_ops */
void gf_touch_read(struct gf_heap_touch *ret);

#endif
