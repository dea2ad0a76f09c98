/* SPDX-License-Identifier: Apache-2.0 */
/* What libc's headers do not declare of the exported family. */
#ifndef GF_HEAP_EXPORTS_H
#define GF_HEAP_EXPORTS_H

#include <malloc.h>
#include <stdlib.h>

void cfree(void *block);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);
void __libc_cfree(void *block);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
int __posix_memalign(void **ret, size_t alignment, size_t size);

#endif
