/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own allocator: the next in search order behind us, each symbol for itself, as it
 * would have been without us.
 */
#include "base/symbols.h"
#include "heap/family.h"

#include <string.h>

static struct gf_family theirs; /* as found */
/* The same, knowing the blocks of the boot pool. */
struct gf_family gf_family_next;

static void free_(void *block)
{
    if (gf_likely(!gf_boot_owns(block)))
        theirs.free(block);
}

static void *realloc_(void *block, size_t size)
{
    if (gf_likely(!gf_boot_owns(block)))
        return theirs.realloc(block, size);
    if (size == 0)
        return NULL;
    void *moved = theirs.malloc(size);
    if (moved)
        memcpy(moved, block, gf_min(size, gf_boot_size(block)));
    return moved;
}

static size_t malloc_usable_size_(void *block)
{
    return gf_boot_owns(block) ? gf_boot_size(block) : theirs.malloc_usable_size(block);
}

static void *find(const char *name)
{
    struct gf_symbol found;
    return gf_symbol_find(name, (const void *)(uintptr_t)&find, &found) ? found.address : NULL;
}

/* None stays NULL: what another allocator lacks is libc's, as it is without us. */
void gf_family_resolve(void)
{
#define RESOLVE(symbol) theirs.symbol = (__typeof__(theirs.symbol))find(#symbol);
    RESOLVE(malloc)
    RESOLVE(calloc)
    RESOLVE(realloc)
    RESOLVE(free)
    RESOLVE(posix_memalign)
    RESOLVE(aligned_alloc)
    RESOLVE(memalign)
    RESOLVE(valloc)
    RESOLVE(pvalloc)
    RESOLVE(malloc_usable_size)
    RESOLVE(malloc_trim)
    RESOLVE(mallinfo)
    RESOLVE(mallinfo2)
    RESOLVE(mallopt)
    RESOLVE(malloc_stats)
    RESOLVE(malloc_info)
#undef RESOLVE
    gf_family_next = theirs;
    if (!gf_boot_used())
        return; /* and nobody will: from here on calls come to this table */
    gf_family_next.free = free_;
    gf_family_next.realloc = realloc_;
    gf_family_next.malloc_usable_size = malloc_usable_size_;
}
