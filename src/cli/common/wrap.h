/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_COMMON_WRAP_H
#define GF_CLI_COMMON_WRAP_H

#include <stdio.h>

/* Writes the text as indented lines of at most `width` columns, and a final newline. */
void gf_wrap(FILE *out, const char *text, unsigned indent, unsigned width);

/*
 * Like gf_wrap, but the first line begins with the label, which is padded to `indent` columns.
 */
void gf_wrap_labelled(FILE *out, const char *label, const char *text, unsigned indent,
                      unsigned width);

/*
 * Returns the number of columns of the terminal that `out` writes to, at most 100; 80 if `out` is
 * not a terminal.
 */
unsigned gf_wrap_width(FILE *out);

#endif
