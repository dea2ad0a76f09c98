/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_WRAP_H
#define GF_CLI_WRAP_H

#include <stdio.h>

/* Writes text as lines of at most width columns, each indented; ends with a newline. */
void gf_wrap(FILE *out, const char *text, unsigned indent, unsigned width);

/* Columns of the terminal behind out, at most 100; 80 when it is none. */
unsigned gf_wrap_width(FILE *out);

#endif
