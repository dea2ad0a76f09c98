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
    bool guessed;                /* an address had no table, so libunwind continues by guesses */
    unw_addr_space_t space;
};

void reference_open(struct reference *ref);
void reference_close(struct reference *ref);

/* A cursor at ref->first. */
void reference_begin(struct reference *ref, unw_cursor_t *ret);

/*
 * The addresses of the frames from ref->first on, in gf_unwind's form: that of a call is the return
 * address minus one. Ends where libunwind has no table, and before an address in no object.
 */
size_t reference_walk(struct reference *ref, uintptr_t *ret, size_t most);

#endif
