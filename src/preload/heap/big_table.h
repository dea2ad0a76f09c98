/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table with one word per 2 MiB of address space: for the big block that starts there (big.h), its size
 * and, in the bits below a page, the number of its pages that were not requested.
 * It is read and written without a lock; the owner of a block changes the block's word. The functions
 * keep errno.
 */
#pragma once

#include "base/base.h"

#define GF_BIG_ALIGN ((size_t)2 << 20)
/* Blocks from this size on are served by the store. */
#define GF_BIG_MIN ((size_t)4 << 20)

typedef _Atomic size_t gf_big_word; /* 0: no block starts here */

/* One part of the table, and its bytes. */
#define GF_BIG_PART_BITS 15
#define GF_BIG_PART_SIZE (sizeof(gf_big_word) << GF_BIG_PART_BITS)
/* The bytes of address space that a part describes. */
#define GF_BIG_PART_SPAN (GF_BIG_ALIGN << GF_BIG_PART_BITS)

/* Returns the word for an address; NULL if that part of the table is missing. */
gf_big_word *gf_big_find_word(uintptr_t start);

/*
 * Adds the part of the table that contains the word: GF_BIG_PART_SIZE zero bytes, which the table
 * owns from now on. Returns false if the table has that part, or no place for it.
 */
bool gf_big_add_part(uintptr_t start, gf_big_word *part);

/*
 * Called with new mappings of jemalloc. A forked child lacks the pages of a block with MADV_DONTFORK, but
 * the table still lists the block. The kernel may give its addresses to jemalloc.
 */
void gf_big_forget(uintptr_t start, size_t size);
