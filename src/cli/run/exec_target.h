/* SPDX-License-Identifier: Apache-2.0 */
/* The program to be run, and whether it can take a preload. */
#ifndef GF_CLI_RUN_EXEC_TARGET_H
#define GF_CLI_RUN_EXEC_TARGET_H

#include "base/base.h"

/*
 * The file that execvp(name) would run, with path as PATH (NULL: the system's default). 0, -ENOENT
 * or -EACCES.
 */
int gf_exec_target_find(const char *name, const char *path, char *ret, size_t size);

struct gf_exec_obstacle {
    const char *why; /* why a preload cannot work, such as "statically linked"; NULL if it can */
    bool harmless;   /* the loader ignores the preload, but children may still use it */
};

/*
 * Inspects the file and, if it is a script, its interpreter. An unreadable file is not an obstacle.
 */
void gf_exec_target_inspect(const char *file, struct gf_exec_obstacle *ret);

/*
 * Whether the file, or the interpreter in its first line, needs an interpreter or loader that is
 * missing. If so, ret is that path.
 */
bool gf_exec_target_lacks(const char *file, char *ret, size_t size);

#endif
