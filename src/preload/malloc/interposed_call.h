/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc and free as the program's calls find them: in this library, or in an allocator that
 * precedes it in search order. reallocarray and cfree call these, as libc's do, because such an
 * allocator may lack both functions. Then the blocks that they receive are that allocator's. Not to
 * be called before the loader has relocated this object.
 */
#ifndef GF_PRELOAD_MALLOC_INTERPOSED_CALL_H
#define GF_PRELOAD_MALLOC_INTERPOSED_CALL_H

#include <stddef.h>

void *gf_interposed_realloc(void *block, size_t size);
void gf_interposed_free(void *block);

#endif
