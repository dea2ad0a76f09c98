/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that a process has mapped, and the functions in them, from their symbol tables. */
#ifndef GF_STACKS_OBJECTS_H
#define GF_STACKS_OBJECTS_H

#include "base/base.h"

#include <sys/types.h>

struct gf_objects;

/* Reads the mappings of code. NULL: they cannot be read, or out of memory. Used by one thread. */
struct gf_objects *gf_objects_read(pid_t pid);
void gf_objects_free(struct gf_objects *objects);

/*
 * Writes "function+0x12 (object)". If no symbol covers the address, as in a stripped object, writes
 * "object+0x1234"; outside of all objects, only the address. The path may contain any character.
 */
void gf_objects_name(struct gf_objects *objects, uintptr_t address, char *ret, size_t size);

#endif
