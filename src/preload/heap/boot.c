/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A static pool for calls that come too early for any allocator. Two kinds of calls use it:
 *
 * 1. Calls before the loader has relocated this object. The loader relocates libraries before
 *    preloaded objects. So the resolver of an indirect function (IFUNC) of a library may allocate
 *    before this object is relocated. Such a call must not use a pointer table, a thread-local
 *    variable, errno or a function of libc.
 * 2. Calls that the thread which decides the mode makes during the decision.
 *
 * Both kinds of calls come from one thread, so the pool has no lock. If a process has made such a
 * call, jemalloc does not serve malloc in it, because jemalloc could not free these blocks.
 * passthrough.c recognises the blocks.
 */
#include "preload/heap/boot.h"

#define BOOT_UNIT 16
/* The pool's alignment. valloc and pvalloc fail if the kernel's pages are larger. */
#define BOOT_PAGE 4096

static _Alignas(BOOT_PAGE) unsigned char pool[64 << 10];
static size_t used;

bool gf_boot_owns(const void *block)
{
    return (uintptr_t)block - (uintptr_t)pool < sizeof(pool);
}

bool gf_boot_used(void)
{
    return used > 0;
}

/* The size is stored in the unit before the block. */
size_t gf_boot_size(const void *block)
{
    return *(const size_t *)((uintptr_t)block - BOOT_UNIT);
}

static void *boot_alloc(size_t alignment, size_t size)
{
    const size_t align = gf_max(alignment, (size_t)BOOT_UNIT);
    const size_t start = (used + BOOT_UNIT + align - 1) & ~(align - 1);

    if (align > BOOT_PAGE || size > sizeof(pool) || start + size > sizeof(pool))
        return NULL;
    *(size_t *)(void *)(pool + start - BOOT_UNIT) = size;
    used = (start + size + BOOT_UNIT - 1) & ~(size_t)(BOOT_UNIT - 1);
    return pool + start;
}

void *gf_boot_malloc(size_t size)
{
    return boot_alloc(BOOT_UNIT, size);
}

void *gf_boot_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        total = SIZE_MAX;
    return boot_alloc(BOOT_UNIT, total); /* never used before, so it is zero */
}

void gf_boot_free(void *block)
{
    (void)block;
}

void *gf_boot_realloc(void *block, size_t size)
{
    unsigned char *moved = boot_alloc(BOOT_UNIT, size);
    const unsigned char *from = block;

    for (size_t i = 0; moved && block && i < size && i < gf_boot_size(block); i++)
        moved[i] = from[i];
    return moved;
}

int gf_boot_posix_memalign(void **ret, size_t alignment, size_t size)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
        return EINVAL;
    void *block = boot_alloc(alignment, size);
    if (!block)
        return ENOMEM;
    *ret = block;
    return 0;
}

size_t gf_boot_malloc_usable_size(void *block)
{
    return block ? gf_boot_size(block) : 0;
}

void *gf_boot_aligned_alloc(size_t alignment, size_t size)
{
    return alignment & (alignment - 1) ? NULL : boot_alloc(alignment, size);
}

void *gf_boot_memalign(size_t alignment, size_t size)
{
    return gf_boot_aligned_alloc(alignment, size);
}

void *gf_boot_valloc(size_t size)
{
    return boot_alloc(BOOT_PAGE, size);
}

void *gf_boot_pvalloc(size_t size)
{
    return size > sizeof(pool)
               ? NULL
               : boot_alloc(BOOT_PAGE, (size + BOOT_PAGE - 1) & ~(size_t)(BOOT_PAGE - 1));
}

/* No early caller needs the remaining functions, so they do nothing. */
#define DOES_NOTHING(name, type, parameters, result)                                               \
    type gf_boot_##name parameters                                                                 \
    {                                                                                              \
        return result;                                                                             \
    }
#define IGNORED __attribute__((unused))
DOES_NOTHING(malloc_trim, int, (IGNORED size_t pad), 0)
DOES_NOTHING(mallinfo, struct mallinfo, (void), (struct mallinfo){0})
DOES_NOTHING(mallinfo2, struct mallinfo2, (void), (struct mallinfo2){0})
DOES_NOTHING(mallopt, int, (IGNORED int parameter, IGNORED int value), 0)
DOES_NOTHING(malloc_stats, void, (void), )
DOES_NOTHING(malloc_info, int, (IGNORED int options, IGNORED FILE *stream), EAGAIN)

const struct gf_family gf_family_boot = {
#define GF_FAMILY(name, type, parameters, arguments) .name = gf_boot_##name,
#include "abi/family.def"
};
