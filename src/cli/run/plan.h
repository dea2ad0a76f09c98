/* SPDX-License-Identifier: Apache-2.0 */
/* Shows what `gpufeed run` would do (--print). */
#ifndef GF_CLI_RUN_PLAN_H
#define GF_CLI_RUN_PLAN_H

#include "cli/run/environ.h"

struct gf_plan {
    const char *program;  /* the file */
    char *const *command; /* the words of the command */
    const struct gf_env *env;
    const char *obstacle; /* why the program does not load the library; NULL if it does */
    bool huge_pages_off;  /* PR_SET_THP_DISABLE is set */
    char binding[2048];   /* "" if the program does not load the library */
};

void gf_plan_print(const struct gf_plan *plan);

#endif
