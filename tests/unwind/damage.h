/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of unwind tables between pages that cannot be read, and mutations of them. */
#ifndef GF_TESTS_UNWIND_DAMAGE_H
#define GF_TESTS_UNWIND_DAMAGE_H

#include "objects.h"

/* A series of numbers from a seed. */
struct series {
    uint64_t state;
};

uint64_t series_next(struct series *series);
size_t series_below(struct series *series, size_t limit);

/*
 * A copy of the segment that holds an object's table. Nothing else can be read within 2 GiB of it.
 * Functions keep their distance from the table.
 */
struct object damage_copy(const struct object *object, bool ends_at_page);

#define CHANGES_MOST 3

/* What was changed, and the address to look up. */
struct mutation {
    size_t count;
    struct {
        size_t offset; /* from the table's start */
        unsigned char before, after;
    } change[CHANGES_MOST];
    size_t entry, size; /* where the function's description is, from the table's start */
    uintptr_t pc;       /* in the function, relative to the table's start */
};

/* Mutation i of an object's table, the same for each copy of it. */
void mutation_choose(const struct object *object, size_t i, struct mutation *ret);
void mutation_apply(const struct object *copy, const struct mutation *mutation);
void mutation_revert(const struct object *copy, const struct mutation *mutation);

#endif
