/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds libc in the loader's list of objects. The code calls no function that a program or another
 * preload can define: no dl_iterate_phdr, no string function, no dlsym. The functions may be called
 * on any thread, inside malloc and under the loader's lock. They take no lock, which is safe
 * because a search ends among the objects that were loaded at startup, and these are never
 * unloaded.
 */
#ifndef GF_BASE_LOADER_LIBC_H
#define GF_BASE_LOADER_LIBC_H

#include "base/base.h"

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

/* Returns the load address of libc; 0 if libc is not found. */
uintptr_t gf_libc_base(void);

/*
 * Returns the default version of libc's function of this name. Returns NULL if libc does not export
 * the function, or if it is an indirect function (IFUNC).
 */
void *gf_libc_function(const char *name);

/*
 * Returns the first definition of a function in the objects after this library in search order;
 * NULL if not found. It may be called before the loader has relocated this library.
 */
void *gf_libc_early_next(const char *name);

#endif
