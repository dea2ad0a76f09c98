/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind as the reference: its generic API on the caller's registers, memory and objects. It is
 * only used with valid tables, because damaged ones crash it (child.h).
 */
#ifndef GF_TESTS_UNWIND_REFERENCE_H
#define GF_TESTS_UNWIND_REFERENCE_H

#include "objects.h"

#include <libunwind.h>

struct reference {
    const struct objects *objects;
    gf_dwarf_read *read;
    void *closure;
    struct gf_dwarf_frame first; /* where a cursor begins */
    bool guessed;                /* an address had no table, so libunwind guessed the caller */
    unw_addr_space_t space;
};

void reference_open(struct reference *ref);
void reference_close(struct reference *ref);

/* Sets the cursor to ref->first. */
void reference_begin(struct reference *ref, unw_cursor_t *ret);

/*
 * Stores the addresses of the frames from ref->first on. Like gf_unwind, it stores the return
 * address of a call minus one. It ends where libunwind has no table, or before an address outside
 * all objects.
 */
size_t reference_walk(struct reference *ref, uintptr_t *ret, size_t most);

#endif
