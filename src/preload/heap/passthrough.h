/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own allocator: for each function, the next definition after this object in search
 * order, which the program would call without the library.
 */
#ifndef GF_PRELOAD_HEAP_PASSTHROUGH_H
#define GF_PRELOAD_HEAP_PASSTHROUGH_H

#include "preload/heap/family.h"

/*
 * A field is NULL if no other object defines the function. The fields are not _Atomic, so that one
 * instruction reads a field and jumps. All stores are atomic.
 */
extern struct gf_family gf_family_passthrough __attribute__((visibility("hidden")));

/*
 * The same for glibc's second names, such as __libc_malloc: the next definition of the same name.
 * The field of a name that no other object defines has the function of the first name.
 */
extern struct gf_libc_family gf_libc_names_passthrough __attribute__((visibility("hidden")));

/* Fills the tables. Called once, by the thread that decides the mode. */
void gf_passthrough_resolve(void);

#endif
