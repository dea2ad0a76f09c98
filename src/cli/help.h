/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the list of verbs, and the error for an unknown verb. */
#ifndef GF_CLI_HELP_H
#define GF_CLI_HELP_H

#include "base/base.h"

#include <stdio.h>

struct gf_verb {
    const char *name;
    const char *brief;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

struct gf_verbs {
    const struct gf_verb *list;
    size_t count;
};

void gf_help_print(FILE *out, const struct gf_verbs *verbs);

/* Prints that the name is not a verb, and suggests the closest one. Returns GF_EXIT_USAGE. */
int gf_help_unknown_verb(const struct gf_verbs *verbs, const char *name);

#endif
