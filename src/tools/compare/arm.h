/* SPDX-License-Identifier: Apache-2.0 */
/* The two arms of a comparison: the environment variables of their runs. */
#pragma once

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
 * Parses "NAME:VAR=VALUE", and adds the variable to the arm NAME, which is created if necessary.
 * "NAME:" adds an arm without a variable. The arms point into `text`, which must stay valid.
 * Returns 0, or -EINVAL after printing an error.
 */
int gf_arms_add(struct gf_arms *arms, const char *text);

/*
 * If no arm was added, adds the default arms, observe and on. Returns 0, or -EINVAL after printing
 * an error if there is only one arm.
 */
int gf_arms_finish(struct gf_arms *arms);
