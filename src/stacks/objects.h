/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that a process has mapped, and the functions in them, from their symbol tables. */
#ifndef GF_STACKS_OBJECTS_H
#define GF_STACKS_OBJECTS_H

#include "base/base.h"

#include <sys/types.h>

struct gf_objects;

/*
 * Reads the process's mappings of code. Returns NULL if they cannot be read, or if memory is short.
 * Only one thread may use the result.
 */
struct gf_objects *gf_objects_read(pid_t pid);
void gf_objects_free(struct gf_objects *objects);

/*
 * Writes "function+0x12 (object)". If no symbol covers the address, for example in a stripped
 * object, writes "object+0x1234". For an address outside of all objects, writes only the address.
 * The object's path, and so the text, may contain any character.
 */
void gf_objects_name(struct gf_objects *objects, uintptr_t address, char *ret, size_t size);

#endif
