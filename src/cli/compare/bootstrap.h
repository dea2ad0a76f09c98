/* SPDX-License-Identifier: Apache-2.0 */
/* The ratio of two arms' times, with a 95 % interval from paired runs. */
#ifndef GF_CLI_COMPARE_BOOTSTRAP_H
#define GF_CLI_COMPARE_BOOTSTRAP_H

#include "base/base.h"

#define GF_BOOTSTRAP_PAIRS_MIN 6u /* fewer pairs give too few different resamples */
#define GF_BOOTSTRAP_PAIRS_MAX 1000u

struct gf_ratio {
    double ratio;     /* mean of `after` divided by mean of `before` */
    double low, high; /* the 95 % interval */
};

/*
 * Computes the ratio and its bootstrap interval from the pairs (before[i], after[i]). Equal
 * arguments give equal results. For few pairs, the interval between the plain percentiles would be
 * too narrow, so it is expanded (Hesterberg, What Teachers Should Know about the Bootstrap, 2015,
 * section 5). All values must be above 0, and count must be within the limits above. Returns 0 or
 * -ENOMEM.
 */
int gf_bootstrap_ratio(const double *before, const double *after, size_t count,
                       struct gf_ratio *ret);

/*
 * Returns the next number of a pseudo-random sequence that depends only on the state. The numbers
 * must not be used for secrets.
 */
uint64_t gf_bootstrap_random(uint64_t *state);

#endif
