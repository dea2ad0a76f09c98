/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in symbol tables; other copies of the library. */
#pragma once

#include "base/base.h"

/*
 * Finds functions in the symbol tables of loaded objects. dlsym cannot be used, because it may
 * allocate, and because the preload library hooks it. The functions below call only
 * dl_iterate_phdr, so they work inside the first malloc.
 */

struct gf_symbol {
    void *address;
    const char *object; /* file name of the object; "" for the main program */
    uintptr_t base;     /* the object's load address, which identifies it */
    const void *entry;  /* the symbol's table entry (ElfW(Sym)); gf_symbol_holder sets NULL */
};

/*
 * Finds the default version of the function `name`. Objects are searched in load order; those
 * opened by dlopen are last, and are searched even without RTLD_GLOBAL. If `self` is an address in
 * an object, only the objects after this one are searched, as with RTLD_NEXT. If `self` is NULL,
 * all are searched. Returns false if not found.
 */
bool gf_symbol_find(const char *name, const void *self, struct gf_symbol *ret);

/*
 * Like gf_symbol_find, for functions of the malloc family, of which all versions are the same: glibc's
 * libc_malloc_debug defines only versions that are no default.
 */
bool gf_symbol_find_allocator(const char *name, const void *self, struct gf_symbol *ret);

/* Like gf_symbol_find, but searches only the object loaded at `base`. */
bool gf_symbol_find_in(uintptr_t base, const char *name, struct gf_symbol *ret);

/* Finds the variable `name` of the object loaded at `base`. */
bool gf_symbol_find_data(uintptr_t base, const char *name, struct gf_symbol *ret);

/*
 * Block this thread's asynchronous signals during several searches. If a signal handler interrupted
 * dl_iterate_phdr and forked, the child would wait for the loader's lock in its next search.
 */
uint64_t gf_symbols_block_signals(void);
void gf_symbols_unblock_signals(uint64_t before);

/*
 * Finds the object that contains the address, and sets ret->address to the address. Returns false
 * if no object contains it.
 */
bool gf_symbol_holder(const void *address, struct gf_symbol *ret);

/*
 * Finds other copies of the library in this process (src/preload/attach/originals.h).
 * The functions only read symbol tables. They may be called on any thread, before main and under
 * the loader's lock.
 */

/*
 * Whether the object loaded at base is a copy of this library. A copy defines both gpufeed_version
 * and cuGetProcAddress; a program may define one of these.
 */
bool gf_own_image_is(uintptr_t base);

/*
 * Whether another copy of the library precedes, in search order, the copy that contains the address
 * `self`.
 */
bool gf_own_image_before(const void *self);

/*
 * Finds the next copy after the object that contains the address `self`, or the first copy if
 * `self` is NULL. Returns false if not found.
 */
bool gf_own_image_behind(const void *self, struct gf_symbol *ret);
