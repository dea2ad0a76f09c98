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
    size_t calls_size;        /* bytes */
    const char *soname;       /* "" where the object has none */
    bool now;                 /* linked with -z now */
};

/* False if the object has no symbols. dynamic may be NULL. */
bool gf_object_read(uintptr_t base, const ElfW(Dyn) * dynamic, struct gf_object *ret);

/*
 * The default version of a function. NULL if the object does not define it, or if it is indirect
 * (IFUNC).
 */
const ElfW(Sym) * gf_object_function(const struct gf_object *object, const char *name);

/*
 * A symbol of any type, in the version with this number (from gf_object_version; 0: the default
 * version).
 */
const ElfW(Sym) *
    gf_object_find(const struct gf_object *object, const char *name, unsigned version);

/*
 * The object's number of the version whose name has this ELF hash; 0 if it defines no such version.
 */
unsigned gf_object_version(const struct gf_object *object, uint32_t hash);

bool gf_object_names_equal(const char *a, const char *b);

#endif
