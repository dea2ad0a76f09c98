/* SPDX-License-Identifier: Apache-2.0 */
/* The two arms of a comparison: what differs in the environment of their runs. */
#ifndef GF_CLI_COMPARE_ARM_H
#define GF_CLI_COMPARE_ARM_H

#include "base/base.h"

#define GF_ARM_VARIABLES 32

struct gf_arm {
    char name[32];
    const char *variables[GF_ARM_VARIABLES + 1]; /* "VAR=VALUE"; ends with NULL */
};

struct gf_arms {
    struct gf_arm list[2];
    size_t count;
};

/*
 * Reads "NAME:VAR=VALUE": adds the variable to the arm NAME, which is created if it is new. "NAME:"
 * adds an arm without a variable. The arms refer to text. 0, or -EINVAL after a line on standard
 * error.
 */
int gf_arms_add(struct gf_arms *arms, const char *text);

/*
 * If no arm was added, adds the default ones: observe and on. -EINVAL, and a line, for a single
 * arm.
 */
int gf_arms_finish(struct gf_arms *arms);

#endif
