/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc, found in the loader's list of objects. Nothing here calls a function that a program or
 * another preload can define: no dl_iterate_phdr, no string function, no dlsym. Any thread, inside
 * malloc, under the loader's lock. The walks stop within the objects that were loaded at startup,
 * which are never unloaded.
 */
#ifndef GF_BASE_LOADER_LIBC_H
#define GF_BASE_LOADER_LIBC_H

#include "base/base.h"

/*
 * Whether the loader has relocated this library. Before that, its code must not use relocated
 * addresses.
 */
bool gf_libc_relocated(void);

/*
 * Binds this library's calls of libc to libc itself. Definitions of the program or another preload
 * under the same names may allocate, lock, or call a hook of this library. Names that this library
 * exports keep the program's search order, except munmap. Idempotent. Before the call, in another link namespace,
 * and where this code is part of the program (a unit test under a sanitizer), the loader's binding
 * holds.
 */
void gf_libc_bind(void);

/* The load address of libc; 0 if it was not found. */
uintptr_t gf_libc_base(void);

/*
 * libc's own function of this name, in its default version. NULL if libc exports none, and for an
 * indirect function.
 */
void *gf_libc_function(const char *name);

/*
 * The next definition of a function after this library, for callers before the relocation. NULL if
 * it is absent.
 */
void *gf_libc_early_next(const char *name);

#endif
