/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of `gpufeed run`: one for each row of options.def, which sets the row's variable. */
#ifndef GF_CLI_FLAGS_H
#define GF_CLI_FLAGS_H

#include "cli/env.h"

#include <stdio.h>

struct gf_flags {
    bool help;
    bool print;
    int command; /* index in argv of the program to run; argc when there is none */
};

/*
 * Reads argv[1..] up to "--" or the first word that is no flag and sets in env what the flags say.
 * 0, or -EINVAL after one line on standard error.
 */
int gf_flags_read(int argc, char **argv, struct gf_env *env, struct gf_flags *ret);

void gf_flags_help(FILE *out);

#endif
