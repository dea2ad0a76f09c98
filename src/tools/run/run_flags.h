/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of `gpufeed run`. Each row of options.def has a flag, which sets the row's variable. */
#pragma once

#include "tools/run/environ.h"

#include <stdio.h>

struct gf_run_flags {
    bool help;
    bool print;
    bool init;   /* fork, and stay as the program's init */
    int command; /* index in argv of the program to run; argc if absent */
};

/*
 * Reads argv[1..] up to "--" or the first operand, and sets the flags' variables in env. Returns 0,
 * or -EINVAL after printing one line on standard error.
 */
int gf_run_flags_read(int argc, char **argv, struct gf_env *env, struct gf_run_flags *ret);

void gf_run_flags_help(FILE *out);
