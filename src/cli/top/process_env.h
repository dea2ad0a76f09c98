/* SPDX-License-Identifier: Apache-2.0 */
/* The start environment of another process. */
#ifndef GF_CLI_TOP_PROCESS_ENV_H
#define GF_CLI_TOP_PROCESS_ENV_H

#include "base/base.h"

#include <sys/types.h>

struct gf_process_env {
    char *text;
    char **list; /* ends with NULL; never NULL itself */
};

/* Reads the environment of a process. The list is empty if the environment cannot be read. */
struct gf_process_env gf_process_env_read(pid_t pid);
void gf_process_env_free(struct gf_process_env *env);

/* Whether a variable of a scheduler or launcher gives the process this job id. */
bool gf_process_env_has_job(const struct gf_process_env *env, const char *job);

#endif
