/* SPDX-License-Identifier: Apache-2.0 */
/* The files that the operands of `gpufeed report` name: logs, reports, folders of them. */
#ifndef GF_CLI_REPORT_INPUT_SOURCES_H
#define GF_CLI_REPORT_INPUT_SOURCES_H

#include "base/base.h"

struct gf_source {
    char *path;
    bool is_named; /* by an operand; other files are members of a folder */
};

struct gf_sources {
    struct gf_source *list;
    size_t count, room;
};

/*
 * Adds a path: a folder's regular files, sorted, down to eight levels and without hidden ones; any
 * other path as it is. 0 or -errno of the folder.
 */
int gf_sources_add(struct gf_sources *sources, const char *path);

/* Opens a source for reading; "-" is standard input. The descriptor, or -errno. */
int gf_source_open(const struct gf_source *source);

/* The source as messages name it. */
const char *gf_source_name(const struct gf_source *source);

void gf_sources_free(struct gf_sources *sources);

#endif
