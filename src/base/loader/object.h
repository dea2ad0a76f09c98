/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the dynamic section of a loaded object, and searches its symbol table. The code may run
 * before the loader has relocated this library. So it uses no function of another library, no table
 * of pointers and no thread-local variable.
 */
#ifndef GF_BASE_LOADER_OBJECT_H
#define GF_BASE_LOADER_OBJECT_H

#include "base/base.h"

#include <link.h>

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
 * Finds the default version of a function. Returns NULL if the object does not define the function,
 * or if it is an indirect function (IFUNC).
 */
const ElfW(Sym) * gf_object_function(const struct gf_object *object, const char *name);

/*
 * Finds a symbol of any type. version: a number that gf_object_version returned, or 0 for the
 * default version. Returns NULL if not found.
 */
const ElfW(Sym) *
    gf_object_find(const struct gf_object *object, const char *name, unsigned version);

/*
 * Returns the number that the object gives to the symbol version whose name has this ELF hash.
 * Returns 0 if the object does not define the version.
 */
unsigned gf_object_version(const struct gf_object *object, uint32_t hash);

bool gf_object_names_equal(const char *a, const char *b);

#endif
