/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a comparison: pairs in random order, after one pair that is discarded. */
#ifndef GF_CLI_COMPARE_TRIAL_H
#define GF_CLI_COMPARE_TRIAL_H

#include "cli/compare/arm.h"
#include "cli/compare/bootstrap.h"
#include "cli/compare/figures.h"
#include "cli/compare/gpu_clock.h"

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
 * the finished pairs. The caller frees *ret in all cases.
 */
int gf_trial_run(const struct gf_arms *arms, size_t pairs, char *const *command,
                 struct gf_trial *ret);
void gf_trial_free(struct gf_trial *trial);

#endif
