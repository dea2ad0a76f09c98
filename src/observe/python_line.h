/* SPDX-License-Identifier: Apache-2.0 */
/* From a place in Python's bytecode to its line: the three tables that CPython has had. */
#ifndef GF_OBSERVE_PYTHON_LINE_H
#define GF_OBSERVE_PYTHON_LINE_H

#include "base/base.h"

struct gf_python_code {
    uintptr_t data; /* the table, in this process's memory */
    size_t size;
    int first_line;
};

/* False where the table says nothing of this place, or cannot be read. */
typedef bool gf_python_line_fn(const struct gf_python_code *code, size_t at, int *ret);

gf_python_line_fn gf_python_line_lnotab;    /* to 3.9: co_lnotab */
gf_python_line_fn gf_python_line_ranges;    /* 3.10: co_linetable, pairs */
gf_python_line_fn gf_python_line_locations; /* since 3.11: co_linetable, entries of any length */

#endif
