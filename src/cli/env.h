/* SPDX-License-Identifier: Apache-2.0 */
/* The child's environment: a copy of ours that grows. */
#ifndef GF_CLI_ENV_H
#define GF_CLI_ENV_H

#include "base/base.h"

struct gf_env {
    char **entries; /* NULL-terminated, as execve takes it */
    size_t count;
};

/* Copies the vector; the strings stay the caller's. Ends the program when memory is out. */
void gf_env_copy(char *const *envp, struct gf_env *ret);
void gf_env_free(struct gf_env *env);

/* NULL when name is not set. */
const char *gf_env_get(const struct gf_env *env, const char *name);

/* Replaces the first entry of that name and drops further ones; value NULL drops all. */
void gf_env_set(struct gf_env *env, const char *name, const char *value);

#endif
