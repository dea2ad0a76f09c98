/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds libc in the loader's list of objects. The code calls no function that a program or another
 * preload can define: no dl_iterate_phdr, no string function, no dlsym. Any thread, inside malloc,
 * under the loader's lock. A search ends within the objects that were loaded at startup, which are
 * never unloaded.
 */
#ifndef GF_BASE_LOADER_LIBC_H
#define GF_BASE_LOADER_LIBC_H

#include "base/base.h"

/* Whether the loader has relocated this library. Before, its code must not use pointer tables. */
bool gf_libc_relocated(void);

/*
 * Binds this library's calls of libc's functions to libc itself. Functions of the same names in the
 * program or another preload may allocate, lock, or call a hook of this library. The loader's
 * binding stays in three cases: for names that this library exports (except munmap), in another
 * link namespace, and if this code is part of the program, as in a unit test under a sanitizer.
 * Idempotent.
 */
void gf_libc_bind(void);

/* The load address of libc; 0 if it was not found. */
uintptr_t gf_libc_base(void);

/*
 * The default version of libc's function. NULL if libc does not export it, or if it is an indirect
 * function (IFUNC).
 */
void *gf_libc_function(const char *name);

/*
 * The next definition of a function after this library, for callers before the relocation. NULL if
 * not found.
 */
void *gf_libc_early_next(const char *name);

#endif
