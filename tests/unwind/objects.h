/* SPDX-License-Identifier: Apache-2.0 */
/* The loaded objects and their unwind tables, from the loader and the ELF headers. */
#ifndef GF_TESTS_UNWIND_OBJECTS_H
#define GF_TESTS_UNWIND_OBJECTS_H

#include "own.h"

#define OBJECTS_MOST 64

struct object {
    const char *name;     /* without its folder */
    uintptr_t start, end; /* range of its segments; ranges do not overlap */
    struct gf_table table;
    size_t entries; /* number in the sorted table */
};

struct objects {
    struct object at[OBJECTS_MOST];
    size_t count;
};

/*
 * Lists the objects whose table has the form that linkers write: pairs of 32-bit distances from the
 * header.
 */
void objects_list(struct objects *ret);

/* Returns the object that contains an address, or NULL. */
const struct object *objects_find(const struct objects *objects, uintptr_t address);

/* Returns the first object whose name begins with this text, or NULL. */
const struct object *objects_named(const struct objects *objects, const char *prefix);

/*
 * Reads a word of a segment that contains an object's table. Returns false if the address is in no
 * such segment.
 */
bool objects_read(const struct objects *objects, uintptr_t address, uintptr_t *ret);

/* Return the two parts of entry i of the sorted table: the function's start, and its description. */
uintptr_t object_function(const struct object *object, size_t i);
const unsigned char *object_entry(const struct object *object, size_t i);

#endif
