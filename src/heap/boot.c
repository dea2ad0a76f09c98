/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two callers come too early. Deciding allocates nothing, but it calls dl_iterate_phdr, and
 * whoever has replaced that may allocate. And the loader relocates libraries before preloads, so
 * an indirect function's resolver in a library may allocate while this object has no addresses
 * yet: what such a call runs may use no pointer table, no thread-local variable and no function of
 * libc, errno included. (jemalloc preloaded alone crashes there.) Both are answered from here, each
 * on one thread (so no lock); the process then stays with its own allocator, whose free and realloc
 * know these blocks.
 */
#include "heap/family.h"

#include <errno.h>

#define UNIT 16

static _Alignas(UNIT) unsigned char pool[64 << 10];
static size_t used;

bool gf_boot_owns(const void *block)
{
    return (uintptr_t)block - (uintptr_t)pool < sizeof(pool);
}

bool gf_boot_used(void)
{
    return used > 0;
}

/* The size stands in the unit before the block. */
size_t gf_boot_size(const void *block)
{
    return *(const size_t *)((uintptr_t)block - UNIT);
}

static void *take(size_t alignment, size_t size)
{
    const size_t align = gf_max(alignment, (size_t)UNIT);
    const size_t start = (used + UNIT + align - 1) & ~(align - 1);

    if (align > sizeof(pool) || size > sizeof(pool) || start + size > sizeof(pool))
        return NULL;
    *(size_t *)(void *)(pool + start - UNIT) = size;
    used = (start + size + UNIT - 1) & ~(size_t)(UNIT - 1);
    return pool + start;
}

void *gf_boot_malloc(size_t size)
{
    return take(UNIT, size);
}

void *gf_boot_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        total = SIZE_MAX;
    return take(UNIT, total); /* handed out once: still zero */
}

void gf_boot_free(void *block)
{
    (void)block;
}

void *gf_boot_realloc(void *block, size_t size)
{
    unsigned char *moved = take(UNIT, size);
    const unsigned char *from = block;

    for (size_t i = 0; moved && block && i < size && i < gf_boot_size(block); i++)
        moved[i] = from[i];
    return moved;
}

static int posix_memalign_(void **ret, size_t alignment, size_t size)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
        return EINVAL;
    void *block = take(alignment, size);
    if (!block)
        return ENOMEM;
    *ret = block;
    return 0;
}

static size_t malloc_usable_size_(void *block)
{
    return block ? gf_boot_size(block) : 0;
}

/* What nobody calls from inside a loader's iteration finds the family incomplete, not absent. */
static void *refuse_aligned(size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    return NULL;
}

static void *refuse(size_t size)
{
    return refuse_aligned(0, size);
}

static int trim_(size_t pad)
{
    (void)pad;
    return 0;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static struct mallinfo mallinfo_(void)
{
    return (struct mallinfo){0};
}

static struct mallinfo2 mallinfo2_(void)
{
    return (struct mallinfo2){0};
}

static int mallopt_(int parameter, int value)
{
    (void)parameter;
    (void)value;
    return 0;
}

static void stats_(void)
{
}

static int info_(int options, FILE *stream)
{
    (void)options;
    (void)stream;
    return EAGAIN;
}

const struct gf_family gf_family_boot = {
    .malloc = gf_boot_malloc,
    .calloc = gf_boot_calloc,
    .realloc = gf_boot_realloc,
    .free = gf_boot_free,
    .posix_memalign = posix_memalign_,
    .aligned_alloc = refuse_aligned,
    .memalign = refuse_aligned,
    .valloc = refuse,
    .pvalloc = refuse,
    .malloc_usable_size = malloc_usable_size_,
    .malloc_trim = trim_,
    .mallinfo = mallinfo_,
    .mallinfo2 = mallinfo2_,
    .mallopt = mallopt_,
    .malloc_stats = stats_,
    .malloc_info = info_,
};
