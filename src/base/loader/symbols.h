/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions in the symbol tables of loaded objects. dlsym cannot be used, because it may
 * allocate, and because the preload library hooks it. These look-ups call only dl_iterate_phdr, so
 * they work inside the first malloc.
 */
#ifndef GF_BASE_LOADER_SYMBOLS_H
#define GF_BASE_LOADER_SYMBOLS_H

#include "base/base.h"

struct gf_symbol {
    void *address;
    const char *object; /* file name of the object; "" for the main program */
    uintptr_t base;     /* its load address: the object's identity */
    const void *entry;  /* its entry in the symbol table (ElfW(Sym)); NULL from gf_symbol_holder */
};

/*
 * Finds the default version of the function `name` in load order. self: NULL, or an address in an
 * object; only objects after that one are searched, as with RTLD_NEXT. False if not found. Objects
 * opened by dlopen are searched last, even without RTLD_GLOBAL.
 */
bool gf_symbol_find(const char *name, const void *self, struct gf_symbol *ret);

/* The same, but only in the object loaded at `base`. */
bool gf_symbol_find_in(uintptr_t base, const char *name, struct gf_symbol *ret);

/* The variable `name` of the object loaded at `base`. */
bool gf_symbol_find_data(uintptr_t base, const char *name, struct gf_symbol *ret);

/* The object that contains the address; false if not found. Sets ret->address to the address. */
bool gf_symbol_holder(const void *address, struct gf_symbol *ret);

#endif
