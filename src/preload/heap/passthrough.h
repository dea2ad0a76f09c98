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

/* Fills the table. Called once, by the thread that decides the mode. */
void gf_passthrough_resolve(void);

#endif
