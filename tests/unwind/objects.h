/* SPDX-License-Identifier: Apache-2.0 */
/* The loaded objects and their unwind tables, from the loader and the ELF headers. */
#ifndef GF_TESTS_UNWIND_OBJECTS_H
#define GF_TESTS_UNWIND_OBJECTS_H

#include "own.h"

#define OBJECTS_MOST 64

struct object {
    const char *name;     /* without its folder */
    uintptr_t start, end; /* of its segments; an address is in one object at most */
    struct gf_table table;
    size_t entries; /* of the sorted table */
};

struct objects {
    struct object at[OBJECTS_MOST];
    size_t count;
};

/*
 * The objects whose table has the form that linkers write: pairs of 32-bit distances from the
 * header.
 */
void objects_list(struct objects *ret);

/* NULL if no object is there. */
const struct object *objects_find(const struct objects *objects, uintptr_t address);

/* The first object whose name begins so; NULL if not found. */
const struct object *objects_named(const struct objects *objects, const char *prefix);

/*
 * A word of the segment that holds an object's table. False if the address is in no such segment.
 */
bool objects_read(const struct objects *objects, uintptr_t address, uintptr_t *ret);

/* Entry i of the sorted table: the function's start, and its description in the table. */
uintptr_t object_function(const struct object *object, size_t i);
const unsigned char *object_entry(const struct object *object, size_t i);

#endif
