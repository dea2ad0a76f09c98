/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "base/cpus.h"

/* The environment of the program to run: a modifiable copy of this process's environment. */
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

/* GPUFEED_OMP=auto: sets the number of OpenMP threads of the program to run. */

/*
 * Sets OMP_NUM_THREADS in env, unless it is already set, to this process's share of the CPUs in
 * `start`, the mask before the binding. Ranks that share this mask get equal parts. If no launcher
 * gives the number of ranks, the variable is set only if one_gpu is true, because a program with
 * several GPUs may start ranks itself. The process must have one thread.
 */
void gf_thread_count_apply(struct gf_env *env, const struct gf_cpus *start, bool one_gpu);
