/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions among the loaded objects, by their symbol tables. dlsym may allocate, and the preload
 * library replaces it. These look-ups call only dl_iterate_phdr (libc's own after
 * base/loader/libc.h has bound it), so they work inside the first malloc.
 */
#ifndef GF_BASE_LOADER_SYMBOLS_H
#define GF_BASE_LOADER_SYMBOLS_H

#include "base/base.h"

struct gf_symbol {
    void *address;
    const char *object; /* file name of the object; "" for the main program */
    uintptr_t base;     /* its load address: the object's identity */
    const void *entry;  /* in its symbol table (ElfW(Sym)); NULL if only the object was requested */
};

/*
 * The default version of `name`: as the program finds it if self is NULL, otherwise in the objects
 * after the one that holds the address `self`, as RTLD_NEXT would. False if no object defines it.
 * Objects that were opened later come after all objects loaded at startup, global or not.
 */
bool gf_symbol_find(const char *name, const void *self, struct gf_symbol *ret);

/* The same, but only in the object loaded at `base`. */
bool gf_symbol_find_in(uintptr_t base, const char *name, struct gf_symbol *ret);

/* The variable `name` of the object loaded at `base`. */
bool gf_symbol_find_data(uintptr_t base, const char *name, struct gf_symbol *ret);

/* The object that holds the address; false if not found. Sets ret->address to the address. */
bool gf_symbol_holder(const void *address, struct gf_symbol *ret);

#endif
