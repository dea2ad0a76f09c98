/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_LINES_H
#define GF_CLI_REPORT_OUTPUT_LINES_H

#include "base/base.h"

/* A list of sentences. If memory is short, sentences are dropped. */
struct gf_lines {
    char **list;
    size_t count;
};

/* Adds a sentence, unless the list already contains it. */
void gf_lines_add(struct gf_lines *lines, const char *format, ...) GF_PRINTF(2, 3);
void gf_lines_free(struct gf_lines *lines);

#endif
