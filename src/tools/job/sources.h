/* SPDX-License-Identifier: Apache-2.0 */
/* The files that the operands of `gpufeed report` name: logs, reports, folders of them. */
#pragma once

#include "base/base.h"

#define GF_SOURCES_MAX 200000

struct gf_source {
    char *path;
    bool is_named; /* an operand names it; other files are in a folder that an operand names */
    dev_t device;  /* identifies the file; 0 if unknown */
    ino_t inode;
};

struct gf_sources {
    struct gf_source *list;
    size_t count;
    size_t repeated; /* files that gf_sources_drop_repeated dropped */
};

/*
 * Adds a path. If the path is a folder, adds the regular files in it and in its subfolders, down to
 * eight levels, sorted and without hidden files. Skips the folders of procfs and sysfs. Returns 0,
 * -EFBIG if there are more than GF_SOURCES_MAX files, or -errno if a folder cannot be read.
 */
int gf_sources_add(struct gf_sources *sources, const char *path);

/* Keeps one source of each file. A file may have several names: links, or operands in a folder. */
void gf_sources_drop_repeated(struct gf_sources *sources);

/* Opens a source for reading; "-" is standard input. Returns the descriptor, or -errno. */
int gf_source_open(const struct gf_source *source);

/* The reason of an error of gf_source_open. */
const char *gf_source_reason(int error);

/* Returns the name of the source for messages. */
const char *gf_source_name(const struct gf_source *source);

void gf_sources_free(struct gf_sources *sources);
