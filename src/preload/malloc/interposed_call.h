/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call the realloc and the free that the program calls: those of this library, or of an allocator
 * that precedes this library in search order. reallocarray and cfree must use these functions, as
 * libc's reallocarray and cfree do. If the preceding allocator lacks reallocarray and cfree, its
 * blocks are passed to those of this library. Do not call these functions before the loader has
 * relocated this object.
 */
#pragma once

#include <stddef.h>

void *gf_interposed_realloc(void *block, size_t size);
void gf_interposed_free(void *block);
