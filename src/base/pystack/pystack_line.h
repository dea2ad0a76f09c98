/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps an offset in Python's bytecode to a source line, in each of CPython's three table formats.
 */
#ifndef GF_BASE_PYSTACK_PYSTACK_LINE_H
#define GF_BASE_PYSTACK_PYSTACK_LINE_H

#include "base/base.h"
#include "base/pystack/pystack_memory.h"

struct gf_pystack_table {
    const struct gf_pystack_memory *memory;
    uintptr_t data; /* address of the table's first byte in `memory` */
    size_t size;
    int first_line; /* first line of the code object */
};

/*
 * Sets *ret to the source line of the instruction at offset `at`, in bytes, of the bytecode.
 * Returns false if the table has no line for this offset, or cannot be read.
 */
typedef bool gf_pystack_line_fn(const struct gf_pystack_table *table, size_t at, int *ret);

gf_pystack_line_fn gf_pystack_line_lnotab;    /* up to 3.9: co_lnotab */
gf_pystack_line_fn gf_pystack_line_ranges;    /* 3.10: co_linetable, pairs */
gf_pystack_line_fn gf_pystack_line_locations; /* from 3.11: co_linetable, variable-length entries */

#endif
