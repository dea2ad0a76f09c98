/* SPDX-License-Identifier: Apache-2.0 */
/* Copies unwind tables between unreadable pages, and mutates the copies. */
#ifndef GF_TESTS_UNWIND_DAMAGE_H
#define GF_TESTS_UNWIND_DAMAGE_H

#include "objects.h"

/* A series of pseudo-random numbers. */
struct series {
    uint64_t state;
};

uint64_t series_next(struct series *series);
size_t series_below(struct series *series, size_t limit);

/*
 * Copies the segment that contains an object's table. No other memory within 2 GiB of the copy is
 * readable. The distance between functions and table stays the same.
 */
struct object damage_copy(const struct object *object, bool ends_at_page);

/* How often a test damages something: in the suite full, which sets GF_LONG, and else. */
size_t damage_rounds(size_t before_release, size_t suite);

#define CHANGES_MOST 3

/* What was changed, and the address to look up. */
struct mutation {
    size_t count;
    struct {
        size_t offset; /* from the table's start */
        unsigned char before, after;
    } change[CHANGES_MOST];
    size_t entry, size; /* the function's description: offset from the table's start, and size */
    uintptr_t pc;       /* in the function, relative to the table's start */
};

/* Chooses mutation i of an object's table. It is the same for each copy of the table. */
void mutation_choose(const struct object *object, size_t i, struct mutation *ret);
void mutation_apply(const struct object *copy, const struct mutation *mutation);
void mutation_revert(const struct object *copy, const struct mutation *mutation);

#endif
