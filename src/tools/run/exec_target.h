/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program to run, and what prevents a preload in it. */
#pragma once

#include "base/base.h"

/*
 * Finds the file that execvp(name) would run if PATH were `path` (NULL: the system's default). 0,
 * -ENOENT or -EACCES.
 */
int gf_exec_target_find(const char *name, const char *path, char *ret, size_t size);

struct gf_exec_obstacle {
    const char *why; /* such as "statically linked"; NULL if a preload works */
    bool harmless;   /* the loader ignores the preload in this program, but not in its children */
};

/*
 * Inspects the file or, if it is a script, its interpreter. A file that cannot be read has no
 * obstacle.
 */
void gf_exec_target_inspect(const char *file, struct gf_exec_obstacle *ret);

/*
 * Whether the interpreter or the loader that the file needs is missing. For a script, this includes
 * the loader of its interpreter. If a path is missing, copies it to ret.
 */
bool gf_exec_target_lacks(const char *file, char *ret, size_t size);
