/* SPDX-License-Identifier: Apache-2.0 */
/* What is about to be run, as far as a preload cares. */
#ifndef GF_CLI_PROGRAM_H
#define GF_CLI_PROGRAM_H

#include "base/base.h"

/*
 * What execvp(name) would run, with path as PATH (NULL: the system's default). 0, -ENOENT or
 * -EACCES.
 */
int gf_program_find(const char *name, const char *path, char *ret, size_t size);

struct gf_obstacle {
    const char *why; /* "statically linked"; NULL when nothing speaks against a preload */
    /* The loader ignores the preload for it without harm, and its children may still use it. */
    bool harmless;
};

/* Looks at the file, and through "#!" at its interpreter. A file that cannot be read is no obstacle. */
void gf_program_inspect(const char *file, struct gf_obstacle *ret);

/* Whether the file, or the interpreter of its first line, asks for an interpreter or a loader that is not there: ret. */
bool gf_program_lacks(const char *file, char *ret, size_t size);

#endif
