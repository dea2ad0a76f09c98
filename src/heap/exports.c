/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported family. Each call asks one well-predicted question, whether jemalloc serves, and
 * jumps. Everything else (another allocator, undecided yet) goes through a table.
 */
#include "heap/exports.h"

#include "heap/family.h"
#include "heap/first.h"
#include "heap/heap.h"
#include "heap/replace.h"

/* A plain read, which is one instruction less: an int that is written once is never half new. */
static inline bool replaced(void)
{
    return gf_likely(gf_heap_mode_now == gf_heap_mode_replace);
}

static inline bool passed_on(void)
{
    return gf_likely(__atomic_load_n(&gf_heap_mode_now, __ATOMIC_ACQUIRE) == gf_heap_mode_next);
}

/* Programs with an account of their own (redis) ask for the size of each block that they get or free. */
static inline const struct gf_family *family(void)
{
    return replaced() ? &gf_family_replace : passed_on() ? &gf_family_next : gf_family();
}

/*
 * It fills in an address by relocation, and the first thread's variables only after it has relocated
 * everything. Without either jemalloc cannot start.
 */
bool gf_heap_loaded(void)
{
    static const volatile uintptr_t filled_in = (uintptr_t)&gf_heap_mode_now;
    static __thread volatile bool initialised = true;

    return filled_in == (uintptr_t)&gf_heap_mode_now && initialised;
}

GF_COLD static void *malloc_otherwise(size_t size)
{
    return gf_heap_loaded() ? gf_family()->malloc(size) : gf_boot_malloc(size);
}

GF_COLD static void *calloc_otherwise(size_t count, size_t size)
{
    return gf_heap_loaded() ? gf_family()->calloc(count, size) : gf_boot_calloc(count, size);
}

GF_COLD static void *realloc_otherwise(void *block, size_t size)
{
    return gf_heap_loaded() ? gf_family()->realloc(block, size) : gf_boot_realloc(block, size);
}

GF_COLD static void free_otherwise(void *block)
{
    if (gf_heap_loaded())
        gf_family()->free(block);
}

GF_EXPORT void *malloc(size_t size)
{
    return replaced()    ? je_malloc(size)
           : passed_on() ? gf_family_next.malloc(size)
                         : malloc_otherwise(size);
}

GF_EXPORT void *calloc(size_t count, size_t size)
{
    return replaced()    ? je_calloc(count, size)
           : passed_on() ? gf_family_next.calloc(count, size)
                         : calloc_otherwise(count, size);
}

GF_EXPORT void *realloc(void *block, size_t size)
{
    return replaced()    ? gf_replace_realloc(block, size)
           : passed_on() ? gf_family_next.realloc(block, size)
                         : realloc_otherwise(block, size);
}

GF_EXPORT void free(void *block)
{
    if (replaced())
        je_free(block);
    else if (passed_on())
        gf_family_next.free(block);
    else
        free_otherwise(block);
}

GF_EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
    return family()->posix_memalign(ret, alignment, size);
}

GF_EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return family()->aligned_alloc(alignment, size);
}

GF_EXPORT void *memalign(size_t alignment, size_t size)
{
    return family()->memalign(alignment, size);
}

GF_EXPORT void *valloc(size_t size)
{
    return family()->valloc(size);
}

GF_EXPORT void *pvalloc(size_t size)
{
    return family()->pvalloc(size);
}

GF_EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return gf_likely(gf_heap_loaded()) ? gf_first_realloc(block, total) : realloc(block, total);
}

GF_EXPORT void cfree(void *block)
{
    if (gf_likely(gf_heap_loaded())) /* what came earlier is not freed */
        gf_first_free(block);
}

GF_EXPORT void free_sized(void *block, size_t size)
{
    (void)size;
    cfree(block);
}

GF_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    cfree(block);
}

GF_EXPORT size_t malloc_usable_size(void *block)
{
    return replaced() ? je_malloc_usable_size(block) : family()->malloc_usable_size(block);
}

GF_EXPORT int malloc_trim(size_t pad)
{
    return family()->malloc_trim(pad);
}

/* Deprecated by its header, still called. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
GF_EXPORT struct mallinfo mallinfo(void)
{
    return family()->mallinfo();
}
#pragma GCC diagnostic pop

GF_EXPORT struct mallinfo2 mallinfo2(void)
{
    return family()->mallinfo2();
}

GF_EXPORT int mallopt(int parameter, int value)
{
    return family()->mallopt(parameter, value);
}

GF_EXPORT void malloc_stats(void)
{
    family()->malloc_stats();
}

GF_EXPORT int malloc_info(int options, FILE *stream)
{
    return family()->malloc_info(options, stream);
}

/* glibc's own names for them: programs that call these beside free must get one allocator. */
#if __has_attribute(copy)
#define SAME_AS(symbol) __attribute__((alias(#symbol), copy(symbol)))
#else
#define SAME_AS(symbol) __attribute__((alias(#symbol)))
#endif

GF_EXPORT void *__libc_malloc(size_t size) SAME_AS(malloc);
GF_EXPORT void *__libc_calloc(size_t count, size_t size) SAME_AS(calloc);
GF_EXPORT void *__libc_realloc(void *block, size_t size) SAME_AS(realloc);
GF_EXPORT void __libc_free(void *block) SAME_AS(free);
GF_EXPORT void __libc_cfree(void *block) SAME_AS(free);
GF_EXPORT void *__libc_memalign(size_t alignment, size_t size) SAME_AS(memalign);
GF_EXPORT void *__libc_valloc(size_t size) SAME_AS(valloc);
GF_EXPORT void *__libc_pvalloc(size_t size) SAME_AS(pvalloc);
GF_EXPORT int __posix_memalign(void **ret, size_t alignment, size_t size) SAME_AS(posix_memalign);
