/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family as a table: one for each who may serve it. */
#ifndef GF_HEAP_FAMILY_H
#define GF_HEAP_FAMILY_H

#include "base/base.h"
#include "heap/heap.h"

#include <malloc.h>
#include <stdio.h>

struct gf_family {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *block, size_t size);
    void (*free)(void *block);
    int (*posix_memalign)(void **ret, size_t alignment, size_t size);
    void *(*aligned_alloc)(size_t alignment, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*valloc)(size_t size);
    void *(*pvalloc)(size_t size);
    size_t (*malloc_usable_size)(void *block);
    int (*malloc_trim)(size_t pad);
    struct mallinfo (*mallinfo)(void);
    struct mallinfo2 (*mallinfo2)(void);
    int (*mallopt)(int parameter, int value);
    void (*malloc_stats)(void);
    int (*malloc_info)(int options, FILE *stream);
};

/* jemalloc with glibc's semantics (replace.c, trim.c). */
extern const struct gf_family gf_family_replace;

/* Whoever stands behind us, as RTLD_NEXT would find them (next.c). */
extern struct gf_family gf_family_next __attribute__((visibility("hidden")));
/* Fills that table. Once, while the mode is being decided. */
void gf_family_resolve(void);

/*
 * A static pool for calls that arrive on the thread that is deciding, or, by these four names,
 * before the loader has relocated this object (boot.c).
 */
void *gf_boot_malloc(size_t size);
void *gf_boot_calloc(size_t count, size_t size);
void *gf_boot_realloc(void *block, size_t size);
void gf_boot_free(void *block);
extern const struct gf_family gf_family_boot;
bool gf_boot_owns(const void *block);
bool gf_boot_used(void);
size_t gf_boot_size(const void *block);

/* Read by every call of the family; written once. */
extern enum gf_heap_mode gf_heap_mode_now __attribute__((visibility("hidden")));

/* The table that serves now; decides on the first call. */
GF_COLD const struct gf_family *gf_family(void);

#endif
