/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "tools/compare/figures.h"
#include "tools/compare/one_run.h"

/* The ratio of two arms' times, with a 95 % interval from paired runs. */

#define GF_BOOTSTRAP_PAIRS_MIN 6u /* fewer pairs give too few different resamples */
#define GF_BOOTSTRAP_PAIRS_MAX 1000u

double gf_mean(const double *values, size_t count);

struct gf_ratio {
    double ratio;     /* mean of `after` divided by mean of `before` */
    double low, high; /* the 95 % interval */
};

/*
 * Computes the ratio and its bootstrap interval from values[0][i], before, and values[1][i], after.
 * If they are paired, the counts are equal; otherwise the values of each side are resampled by
 * themselves. Equal arguments give equal results. For few values, the interval between the plain
 * percentiles would be too narrow, so it is expanded (Hesterberg, What Teachers Should Know about the
 * Bootstrap, 2015, section 5). All values must be above 0, and the counts must be within the limits
 * above.
 */
struct gf_ratio gf_bootstrap_ratio(const double *const values[2], const size_t counts[2],
                                   bool paired);

/*
 * Returns the next number of a pseudo-random sequence that depends only on the state. The numbers
 * must not be used for secrets.
 */
uint64_t gf_bootstrap_random(uint64_t *state);

/* The runs of a comparison: pairs in random order, after one pair that is discarded. */
struct gf_trial {
    size_t pairs;   /* number of finished pairs */
    size_t planned; /* the number that was fixed before the first run */
    /* true: times are seconds per step; false: times are seconds of the whole command. */
    bool by_step;
    double *times[2];             /* times[arm][pair] */
    struct gf_figures figures[2]; /* sums over the runs of each arm */
    struct gf_gpu_clock clocks[2];
    /* The second arm's time divided by the first arm's. Unknown if the trial was interrupted. */
    struct gf_ratio ratio;
};

/*
 * Makes `pairs` pairs of runs, in random order within each pair. Stops at the first run that fails,
 * after printing an error, and returns -errno. Stops at SIGINT, and returns -EINTR; *ret then has
 * the finished pairs. The caller frees the times in all cases.
 */
int gf_trial_run(const struct gf_arms *arms, size_t pairs, char *const *command,
                 struct gf_trial *ret);
