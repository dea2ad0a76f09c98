/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/jemalloc_family.h"

#include "preload/heap/info.h"

#include <gnu/libc-version.h>
#include <sys/auxv.h>

/* The following functions of jemalloc behave as those of glibc do. */
#define jemalloc_malloc je_malloc
#define jemalloc_calloc je_calloc
#define jemalloc_free gf_jemalloc_free
#define jemalloc_malloc_usable_size gf_jemalloc_usable_size
#define jemalloc_malloc_trim gf_info_malloc_trim

static void *jemalloc_realloc(void *block, size_t size)
{
    return gf_jemalloc_realloc(block, size);
}

/* alignment: a power of two. */
static void *aligned(size_t alignment, size_t size)
{
    void *const block = size >= GF_BIG_MIN ? gf_big_aligned(alignment, size) : NULL;

    return block ? block : je_aligned_alloc(alignment, size);
}

/* glibc rounds the alignment up to a power of two. jemalloc would return NULL without errno. */
static void *jemalloc_memalign(size_t alignment, size_t size)
{
    const size_t highest = (SIZE_MAX >> 1) + 1;
    size_t power = 16;

    if (alignment > highest) {
        errno = EINVAL;
        return NULL;
    }
    while (power < alignment)
        power <<= 1;
    return aligned(power, size);
}

/*
 * Sets errno if memory is short, as glibc does, although POSIX does not require that. If the call
 * fails, *ret is unchanged.
 */
static int jemalloc_posix_memalign(void **ret, size_t alignment, size_t size)
{
    const bool valid = alignment >= sizeof(void *) && !(alignment & (alignment - 1));
    void *const block = valid && size >= GF_BIG_MIN ? gf_big_aligned(alignment, size) : NULL;

    if (block) {
        *ret = block;
        return 0;
    }
    const int result = je_posix_memalign(ret, alignment, size);

    if (gf_unlikely(result == ENOMEM))
        errno = ENOMEM;
    return result;
}

/*
 * Whether this glibc's aligned_alloc accepts any alignment. Before 2.38, aligned_alloc is the same
 * as memalign. Since then it refuses alignments that are not a power of two.
 */
static bool takes_any_alignment(void)
{
    const char *version = gnu_get_libc_version();
    unsigned minor = 0;

    if (version[0] != '2' || version[1] != '.')
        return false;
    for (const char *digit = version + 2; *digit >= '0' && *digit <= '9'; digit++)
        minor = 10 * minor + (unsigned)(*digit - '0');
    return minor < 38;
}

static void *jemalloc_aligned_alloc(size_t alignment, size_t size)
{
    const bool valid = alignment && !(alignment & (alignment - 1));

    if (gf_unlikely(!valid))
        return takes_any_alignment() ? jemalloc_memalign(alignment, size)
                                     : je_aligned_alloc(alignment, size);
    return aligned(alignment, size);
}

static void *jemalloc_valloc(size_t size)
{
    return aligned(getauxval(AT_PAGESZ), size);
}

static void *jemalloc_pvalloc(size_t size)
{
    const size_t page = getauxval(AT_PAGESZ);
    size_t rounded;

    if (__builtin_add_overflow(size, page - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    return aligned(page, rounded & ~(page - 1));
}

const struct gf_family gf_family_jemalloc = {
#define GF_FAMILY_INFO(name, type, parameters, arguments) .name = gf_info_##name,
#define GF_FAMILY(name, type, parameters, arguments) .name = jemalloc_##name,
#include "abi/family.def"
};
