/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc family in libc's own symbol table. */
#ifndef GF_PRELOAD_MALLOC_LIBC_NAMES_H
#define GF_PRELOAD_MALLOC_LIBC_NAMES_H

#include "base/base.h"

/*
 * Makes symbol lookups that start at libc find the functions that serve malloc. To be called before
 * each dlopen, and before each lookup of such a name by RTLD_NEXT. So a process without either pays
 * nothing. Idempotent; any thread; keeps errno. Does nothing if another allocator serves malloc.
 * False if the symbols cannot be changed: then no library may be opened with RTLD_DEEPBIND.
 */
bool gf_libc_names_prepare(void);

/* Whether `name` is in the malloc family. */
bool gf_libc_names_contain(const char *name);

#endif
