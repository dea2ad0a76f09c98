/* SPDX-License-Identifier: Apache-2.0 */
/* The files that the operands of `gpufeed report` name: logs, reports, folders of them. */
#ifndef GF_CLI_REPORT_INPUT_SOURCES_H
#define GF_CLI_REPORT_INPUT_SOURCES_H

#include "base/base.h"

struct gf_source {
    char *path;
    bool is_named; /* an operand names it; other files are in a folder that an operand names */
};

struct gf_sources {
    struct gf_source *list;
    size_t count, room;
};

/*
 * Adds a path. If the path is a folder, adds the regular files in it and in its subfolders, down to
 * eight levels, sorted and without hidden files. Returns 0, or -errno if a folder cannot be read.
 */
int gf_sources_add(struct gf_sources *sources, const char *path);

/* Opens a source for reading; "-" is standard input. Returns the descriptor, or -errno. */
int gf_source_open(const struct gf_source *source);

/* Returns the name of the source for messages. */
const char *gf_source_name(const struct gf_source *source);

void gf_sources_free(struct gf_sources *sources);

#endif
