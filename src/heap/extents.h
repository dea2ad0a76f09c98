/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's page allocator, watched: all that it hands to slabs and large blocks and takes back
 * passes here, some hundred times less often than malloc and free.
 */
#ifndef GF_HEAP_EXTENTS_H
#define GF_HEAP_EXTENTS_H

#include "base/base.h"

/* Bytes in slabs and large blocks now; 0 when they cannot be counted. */
uint64_t gf_extents_active(void);

/* How much less there is of large blocks than there has been: what they may want again. */
uint64_t gf_extents_missing(void);
/* That is forgotten: nothing is kept for them any more. */
void gf_extents_forget(void);

#endif
