/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/replace.h"

#include "heap/family.h"
#include "heap/info.h"

#include <sys/auxv.h>

static void *realloc_(void *block, size_t size)
{
    return gf_replace_realloc(block, size);
}

/* The next power of two, as glibc does; jemalloc returns NULL without errno. */
static void *memalign_(size_t alignment, size_t size)
{
    const size_t highest = (SIZE_MAX >> 1) + 1;
    size_t power = 16;

    if (alignment > highest) {
        errno = EINVAL;
        return NULL;
    }
    while (power < alignment)
        power <<= 1;
    return je_aligned_alloc(power, size);
}

static void *valloc_(size_t size)
{
    return je_aligned_alloc(getauxval(AT_PAGESZ), size);
}

static void *pvalloc_(size_t size)
{
    const size_t page = getauxval(AT_PAGESZ);
    size_t rounded;

    if (__builtin_add_overflow(size, page - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    return je_aligned_alloc(page, rounded & ~(page - 1));
}

static size_t malloc_usable_size_(void *block)
{
    return je_malloc_usable_size(block);
}

const struct gf_family gf_family_replace = {
    .malloc = je_malloc,
    .calloc = je_calloc,
    .realloc = realloc_,
    .free = je_free,
    .posix_memalign = je_posix_memalign,
    .aligned_alloc = je_aligned_alloc,
    .memalign = memalign_,
    .valloc = valloc_,
    .pvalloc = pvalloc_,
    .malloc_usable_size = malloc_usable_size_,
    .malloc_trim = gf_info_trim,
    .mallinfo = gf_info_mallinfo,
    .mallinfo2 = gf_info_mallinfo2,
    .mallopt = gf_info_mallopt,
    .malloc_stats = gf_info_stats,
    .malloc_info = gf_info_xml,
};
