/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a function among the loaded objects by reading their symbol tables. dlsym may allocate,
 * takes the loader's locks, and is one of the functions that the door replaces; this does and is
 * none of that (it calls dl_iterate_phdr, nothing else), so it works inside the first malloc.
 */
#ifndef GF_BASE_SYMBOLS_H
#define GF_BASE_SYMBOLS_H

#include "base/base.h"

struct gf_symbol {
    void *address;
    const char *object; /* file name of the object; "" for the main program */
    uintptr_t base;     /* its load address: the object's identity */
    const void *entry;  /* in its symbol table (ElfW(Sym)); NULL when only the object was asked for */
};

/*
 * The default version of `name` as the program finds it (self NULL), or in the objects behind the
 * one that holds the address `self`, as RTLD_NEXT would. False when no object defines it.
 * Objects opened later stand behind all that were there at start, whether or not they are global.
 */
bool gf_symbol_find(const char *name, const void *self, struct gf_symbol *ret);

/* The same in the object loaded at `base` only. */
bool gf_symbol_find_in(uintptr_t base, const char *name, struct gf_symbol *ret);

/* The object that holds the address; false when none does. address is filled in with it. */
bool gf_symbol_holder(const void *address, struct gf_symbol *ret);

#endif
