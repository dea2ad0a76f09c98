/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call realloc and free as the program does: in this library, or in an allocator that precedes it
 * in search order. reallocarray and cfree must use these, as libc's do. If the other allocator
 * lacks reallocarray and cfree, they receive its blocks. Do not call these before the loader has
 * relocated this object.
 */
#ifndef GF_PRELOAD_MALLOC_INTERPOSED_CALL_H
#define GF_PRELOAD_MALLOC_INTERPOSED_CALL_H

#include <stddef.h>

void *gf_interposed_realloc(void *block, size_t size);
void gf_interposed_free(void *block);

#endif
