/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

#include <link.h>

/*
 * Reads the dynamic section of a loaded object, and searches its symbol table. The code may run
 * before the loader has relocated this library. So it uses no function of another library, no table
 * of pointers and no thread-local variable.
 */

struct gf_object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    const uint16_t *versions;
    const ElfW(Verdef) * defined;
    const ElfW(Verneed) * needed;
    const ElfW(Rela) * calls; /* relocations of the procedure linkage table */
    size_t calls_size;        /* size of these relocations in bytes */
    const char *soname;       /* "" if the object has no soname */
    bool now;                 /* true if the object was linked with -z now */
};

/*
 * Fills in *ret from a dynamic section, which may be NULL. Returns false if the object has no
 * symbol table.
 */
bool gf_object_read(uintptr_t base, const ElfW(Dyn) * dynamic, struct gf_object *ret);

/*
 * Finds a version of a function, as gf_object_find. Returns NULL also for an indirect function (IFUNC).
 */
const ElfW(Sym) *
    gf_object_function(const struct gf_object *object, const char *name, unsigned version);

/*
 * Finds a symbol of any type. version: a number that gf_object_version returned, 0 for the
 * default version, or GF_ANY_VERSION. Returns NULL if not found.
 */
#define GF_ANY_VERSION (~0U)
const ElfW(Sym) *
    gf_object_find(const struct gf_object *object, const char *name, unsigned version);

/*
 * Returns the number that the object gives to the symbol version whose name has this ELF hash.
 * Returns 0 if the object does not define the version.
 */
unsigned gf_object_version(const struct gf_object *object, uint32_t hash);

bool gf_object_names_equal(const char *a, const char *b);

/*
 * Finds libc in the loader's list of objects. The code calls no function that a program or another
 * preload can define: no dl_iterate_phdr, no string function, no dlsym. The functions may be called
 * on any thread, inside malloc and under the loader's lock. They take no lock, which is safe
 * because a search ends among the objects that were loaded at startup, and these are never
 * unloaded.
 */

/*
 * Whether the loader has relocated this library. Until then, its code must not use pointer tables.
 */
bool gf_libc_relocated(void);

/*
 * Binds this library's calls of libc's functions to libc itself. The loader may have bound them to
 * functions of the same names in the program or another preload, which may allocate, lock, or call
 * a hook of this library. Calls of names that this library exports (except munmap) stay bound as
 * the loader bound them. All calls stay so if this library is in another link namespace, or if this
 * code is part of the program, as in a unit test under a sanitizer. Later calls of gf_libc_bind
 * have no effect.
 */
void gf_libc_bind(void);

/* Reads libc's dynamic section. Returns false if libc is not found. */
bool gf_libc_find(struct gf_object *ret);

/* Returns the load address of libc; 0 if libc is not found. */
uintptr_t gf_libc_base(void);

/*
 * Returns the default version of libc's function of this name. Returns NULL if libc does not export
 * the function, or if it is an indirect function (IFUNC).
 */
void *gf_libc_function(const char *name);

/* Returns the first definition of a function in search order, up to libc; NULL if not found. */
void *gf_libc_first(const char *name);

/*
 * Returns the first definition of a function in the objects after this library in search order, up
 * to libc; NULL if not found. It may be called before the loader has relocated this library.
 */
void *gf_libc_early_next(const char *name);

/*
 * Whether an object before this library in search order defines both functions; -1 if this library was
 * opened by dlopen, so that the objects before it may be unloaded.
 */
int gf_libc_defined_before(const char *name, const char *other);
