/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the program to run: a modifiable copy of this process's environment. */
#ifndef GF_CLI_RUN_ENVIRON_H
#define GF_CLI_RUN_ENVIRON_H

#include "base/base.h"

struct gf_env {
    char **entries; /* the vector for execve, with a final NULL */
    size_t count;
};

/* Copies the vector, but not its strings. These functions exit the process if memory is short. */
void gf_env_copy(char *const *envp, struct gf_env *ret);
void gf_env_free(struct gf_env *env);

/* Returns the value of a variable; NULL if the variable is not set. */
const char *gf_env_get(const struct gf_env *env, const char *name);

/* Replaces all entries of a variable by one entry; if value is NULL, removes the entries. */
void gf_env_set(struct gf_env *env, const char *name, const char *value);

#endif
