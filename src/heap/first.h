/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc and free as the program's calls find them: ours, or an allocator's that stands before us. What is built on
 * them goes by them, as libc's reallocarray does: that allocator may lack it, and its blocks are its own. Not before
 * the loader has relocated us.
 */
#ifndef GF_HEAP_FIRST_H
#define GF_HEAP_FIRST_H

#include <stddef.h>

void *gf_first_realloc(void *block, size_t size);
void gf_first_free(void *block);

#endif
