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
 * Adds an arm NAME:VAR=VALUE, or the variable to the arm of that name; "NAME:" has none. text must
 * stay. Reports mistakes on standard error: 0 or -EINVAL.
 */
int gf_arms_add(struct gf_arms *arms, const char *text);

/* Without an arm, sets the default ones: observe and on. Reports a single arm: 0 or -EINVAL. */
int gf_arms_finish(struct gf_arms *arms);

#endif
