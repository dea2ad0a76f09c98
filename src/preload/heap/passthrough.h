/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own allocator: for each function, the next definition after this object in the
 * loader's search order. That is the function that the program would call without the library.
 */
#ifndef GF_PRELOAD_HEAP_PASSTHROUGH_H
#define GF_PRELOAD_HEAP_PASSTHROUGH_H

#include "preload/heap/family.h"

/*
 * A function that no other object defines is NULL. The fields are plain but written atomically, so
 * that a call reads a field and jumps by one instruction.
 */
extern struct gf_family gf_family_passthrough __attribute__((visibility("hidden")));

/* Fills that table. Called once, by the thread that decides the mode. */
void gf_passthrough_resolve(void);

#endif
