/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/passthrough.h"

#include "base/symbols.h"
#include "preload/heap/boot.h"

#include <string.h>

static struct gf_family next; /* the functions of the program's own allocator */
/*
 * The functions of the program's own allocator, but free, realloc and malloc_usable_size can handle
 * blocks of the boot pool.
 */
struct gf_family gf_family_passthrough;
static struct gf_libc_family next_libc;
struct gf_libc_family gf_libc_names_passthrough;

static void passthrough_free(void *block)
{
    if (gf_likely(!gf_boot_owns(block)))
        next.free(block);
}

static void libc_free(void *block)
{
    if (gf_likely(!gf_boot_owns(block)))
        next_libc.__libc_free(block);
}

/* Moves a block of the boot pool to a block that `allocate` returns. */
static void *move_from_boot(void *block, size_t size, void *(*allocate)(size_t size))
{
    if (size == 0)
        return NULL;
    void *moved = allocate(size);
    if (moved)
        memcpy(moved, block, gf_min(size, gf_boot_size(block)));
    return moved;
}

static void *passthrough_realloc(void *block, size_t size)
{
    return gf_likely(!gf_boot_owns(block)) ? next.realloc(block, size)
                                           : move_from_boot(block, size, next.malloc);
}

static void *libc_realloc(void *block, size_t size)
{
    return gf_likely(!gf_boot_owns(block)) ? next_libc.__libc_realloc(block, size)
                                           : move_from_boot(block, size, next_libc.__libc_malloc);
}

static size_t passthrough_usable_size(void *block)
{
    return gf_boot_owns(block) ? gf_boot_size(block) : next.malloc_usable_size(block);
}

static void *find_next(const char *name)
{
    struct gf_symbol found;
    return gf_symbol_find(name, (const void *)(uintptr_t)&find_next, &found) ? found.address : NULL;
}

/*
 * If the program's allocator lacks a function, libc's function is found, as it would be without
 * this library.
 */
void gf_passthrough_resolve(void)
{
#define GF_FAMILY(name, type, parameters, arguments)                                               \
    next.name = (__typeof__(next.name))find_next(#name);
#include "abi/family.def"
#define GF_FAMILY_ALIAS(alias, name, type, parameters, arguments)                                  \
    next_libc.alias = (__typeof__(next_libc.alias))find_next(#alias);                              \
    if (!next_libc.alias)                                                                          \
        next_libc.alias = next.name;
#include "abi/family.def"
    if (!find_next("__libc_cfree")) /* newer versions of glibc lack it */
        next_libc.__libc_cfree = next_libc.__libc_free;
    gf_family_passthrough = next;
    gf_libc_names_passthrough = next_libc;
    if (!gf_boot_used())
        /* No block of the pool exists, and later calls use this table, so none will exist. */
        return;
    gf_family_passthrough.free = passthrough_free;
    gf_family_passthrough.realloc = passthrough_realloc;
    gf_family_passthrough.malloc_usable_size = passthrough_usable_size;
    gf_libc_names_passthrough.__libc_free = gf_libc_names_passthrough.__libc_cfree = libc_free;
    gf_libc_names_passthrough.__libc_realloc = libc_realloc;
}
