/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's reporting and tuning functions, answered from jemalloc. */
#ifndef GF_HEAP_INFO_H
#define GF_HEAP_INFO_H

#include "heap/heap.h"

#include <malloc.h>
#include <stdio.h>

/* Gives back all that can be; 1 when something went to the kernel. `pad` has no counterpart. */
int gf_info_trim(size_t pad);
struct mallinfo gf_info_mallinfo(void);
struct mallinfo2 gf_info_mallinfo2(void);
int gf_info_mallopt(int parameter, int value);
void gf_info_stats(void);
int gf_info_xml(int options, FILE *stream);

void gf_info_heap(struct gf_heap_stats *ret);

#endif
